"""GIF: blocks whose data are in pieces, each with its size before it."""

from libranet.video.structure.breaks import Breaks, FileBytes

_EXTENSION, _IMAGE, _END = 0x21, 0x2C, 0x3B
_FIRST_PIECES = {0xF9: 4, 0xFF: 11, 0x01: 12}
"""Sizes of the first piece: times of a frame, extensions of programs, text."""
_TIMES = 0xF9
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
"""Names of the extension that says how often an animation is shown, in pieces of three or five bytes."""
_LONGEST_LOOPS = 5
_MOST_CODES = 4096


def walk_gif(file: FileBytes, breaks: Breaks) -> None:
    """Follow the blocks up to the last one."""
    head = file.read(0, 13)
    at = 13 + _color_table(head[10]) if len(head) == 13 else file.size
    while at < file.size:
        kind = file.read(at, 10)
        if kind[0] == _END:
            return
        if kind[0] == _EXTENSION and len(kind) > 1:
            begin, at, sizes = at, *_pieces(file, at + 2)
            first = _FIRST_PIECES.get(kind[1])
            wrong = first is not None and sizes[:1] != [first]
            wrong |= kind[1] == _TIMES and len(sizes) != 1
            wrong |= file.read(begin + 3, 11) in _LOOPS and max(sizes[1:], default=0) > _LONGEST_LOOPS
            if wrong:
                breaks.add(at - begin)
        elif kind[0] == _IMAGE and len(kind) == 10:
            start = at + 10 + _color_table(kind[9])
            begin, at, sizes = at, *_pieces(file, start + 1)
            # A damaged size lets an image swallow what follows. Nearly all programs fill every piece but the last, so
            # only others need a closer look.
            if any(size != sizes[0] for size in sizes[:-1]) and at <= file.size:
                width, height = (int.from_bytes(kind[k : k + 2], "little") for k in (5, 7))
                if not _ends_with_its_data(file.read(start, at - start), width * height):
                    breaks.add(at - begin)
        else:
            breaks.add(file.size - at)
            return
    breaks.cut = True


def _pieces(file: FileBytes, at: int) -> tuple[int, list[int]]:
    """Return where pieces end, and their sizes."""
    sizes = []
    while (size := file.read(at, 1)) and size[0]:
        sizes.append(size[0])
        at += 1 + size[0]
    return at + 1, sizes


def _ends_with_its_data(data: bytes, pixels: int) -> bool:
    """Return whether the codes of an image stand for all of its pixels and end in its last piece.

    Args:
        data: The size of the codes in bits, then the pieces.
        pixels: Of the image.
    """
    bits, pieces, at = data[0], list[bytes](), 1
    while data[at]:
        pieces.append(data[at + 1 : at + 1 + data[at]])
        at += 1 + data[at]
    if not 1 <= bits <= 11:
        return False
    codes = b"".join(pieces)
    used, found = _decoded_length(codes, bits)
    return found >= pixels and used > len(codes) - len(pieces[-1]) - 1


def _decoded_length(data: bytes, bits: int) -> tuple[int, int]:
    """Follow LZW codes up to their end. Return how many bytes were used, and how many pixels they stand for."""
    clear = 1 << bits
    lengths, width, before, pixels = [1] * (clear + 2), bits + 1, 0, 0
    held = held_bits = 0
    for place, byte in enumerate(data):
        held |= byte << held_bits
        held_bits += 8
        while held_bits >= width:
            code = held & ((1 << width) - 1)
            held >>= width
            held_bits -= width
            if code == clear + 1:
                return place + 1, pixels
            if code == clear:
                lengths, width, before = [1] * (clear + 2), bits + 1, 0
                continue
            if code > len(lengths) or (code == len(lengths) and not before):
                return place + 1, pixels
            if before and len(lengths) < _MOST_CODES:
                lengths.append(before + 1)
                width = min(12, max(width, len(lengths).bit_length()))
            before = lengths[code] if code < len(lengths) else before + 1
            pixels += before
    return len(data), pixels


def _color_table(flags: int) -> int:
    return 3 << (1 + (flags & 7)) if flags & 0x80 else 0
