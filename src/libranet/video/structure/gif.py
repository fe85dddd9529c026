"""GIF: blocks whose data are in pieces, each with its size before it.

The silent loss: a damaged size lets an image swallow the next one. Decoders stop at the end of its codes, pass over the
rest, and every packet that is left gives its frame.
"""

from collections.abc import Iterator

from libranet.video.structure.breaks import Breaks, FileBytes

_EXTENSION, _IMAGE, _END = 0x21, 0x2C, 0x3B
_FIRST_PIECES = {0xF9: 4, 0xFF: 11, 0x01: 12}
"""Sizes of the first piece: times of a frame, extensions of programs, text."""
_TIMES = 0xF9
_LONGEST_CODE = 12
_MOST_CODES = 1 << _LONGEST_CODE
_SPARE = 2
"""Bytes that programs write behind the last code."""
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
"""Names of the extension that says how often an animation is shown, in pieces of three or five bytes."""
_LONGEST_LOOPS = 5


def walk_gif(file: FileBytes, breaks: Breaks) -> None:
    """Follow the blocks up to the last one, and the codes of every image to their end."""
    for begin, end, size, codes in _images(file, breaks):
        if not _is_whole(codes, size):
            breaks.add(end - begin)


def _is_whole(codes: list[bytes], pixels: int) -> bool:
    """Return whether codes give all pixels, are possible, and end in the last piece.

    Args:
        codes: The size of the first codes in bits, then the pieces.
        pixels: How many the image has.
    """
    bits = codes[0][0] if codes[0] else 0
    data = b"".join(codes[1:])
    if not 2 <= bits <= 8:  # FFmpeg shows these images as they are, or not at all: its frames are counted
        return True
    clear, end = 1 << bits, (1 << bits) + 1
    lengths = [1] * clear + [0, 0]  # how many pixels a code stands for
    width, last, shown = bits + 1, 0, 0
    window = filled = 0
    for at, byte in enumerate(data):
        window |= byte << filled
        filled += 8
        while filled >= width:
            code = window & ((1 << width) - 1)
            window, filled = window >> width, filled - width
            if code == end:
                return shown >= pixels and at >= len(data) - len(codes[-1]) - _SPARE
            if code == clear:
                del lengths[clear + 2 :]
                width, last = bits + 1, 0
                continue
            if code > len(lengths) or (code == len(lengths) and not last):
                return shown >= pixels
            if last and len(lengths) < _MOST_CODES:
                lengths.append(last + 1)
                if len(lengths) == 1 << width and width < _LONGEST_CODE:
                    width += 1
            last = lengths[code]
            shown += last
    return shown >= pixels


def _images(file: FileBytes, breaks: Breaks) -> Iterator[tuple[int, int, int, list[bytes]]]:
    """Yield where images begin and end, their pixels, and their codes as `_is_whole` takes them."""
    head = file.read(0, 13)
    at = 13 + _color_table(head[10]) if len(head) == 13 else file.size
    while at < file.size:
        begin, kind = at, file.read(at, 10)
        if kind[0] == _END:
            return
        if kind[0] == _EXTENSION and len(kind) > 1:
            at, sizes = _pieces(file, begin + 2)
            first = _FIRST_PIECES.get(kind[1])
            wrong = first is not None and sizes[:1] != [first]
            wrong |= kind[1] == _TIMES and len(sizes) != 1
            wrong |= file.read(begin + 3, 11) in _LOOPS and max(sizes[1:], default=0) > _LONGEST_LOOPS
            if wrong:
                breaks.add(at - begin)
        elif kind[0] == _IMAGE and len(kind) == 10:
            first_code = begin + 10 + _color_table(kind[9])
            at, sizes = _pieces(file, first_code + 1)
            pieces, place = [file.read(first_code, 1)], first_code + 2
            for size in sizes:
                pieces.append(file.read(place, size))
                place += size + 1
            yield begin, at, int.from_bytes(kind[5:7], "little") * int.from_bytes(kind[7:9], "little"), pieces
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


def _color_table(flags: int) -> int:
    return 3 << (1 + (flags & 7)) if flags & 0x80 else 0
