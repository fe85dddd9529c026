"""GIF: blocks whose data are in pieces, each with its size before it.

The silent loss: a damaged size lets an image swallow the next one. Decoders stop at the end of its codes, pass over the
rest, and every packet that is left gives its frame.
"""

import re
from collections.abc import Iterator

from libranet.video.structure.breaks import Breaks, FileBytes

_EXTENSION, _IMAGE, _END = 0x21, 0x2C, 0x3B
_FIRST_PIECES = {0xF9: 4, 0xFF: 11, 0x01: 12}
"""Sizes of the first piece: times of a frame, extensions of programs, text."""
_TIMES = 0xF9
_NEXT_IMAGE = re.compile(rb"\x21\xf9\x04.{4}\0\x2c", re.DOTALL)
"""Times of a frame, and the beginning of its image: five bytes that codes have once in 10^12 places."""
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
"""Names of the extension that says how often an animation is shown, in pieces of three or five bytes."""
_LONGEST_LOOPS = 5


def walk_gif(file: FileBytes, breaks: Breaks) -> None:
    """Follow the blocks up to the last one, and look for images that are too long.

    A program fills every piece of an image but the last, or it never does. Where others are filled, or an image begins
    inside of another, sizes are damaged.
    """
    images = list(_images(file, breaks))
    fills = any(len(sizes) > 2 and len(set(sizes[:-1])) == 1 for _, _, sizes in images)
    for begin, end, sizes in images:
        is_odd = len(set(sizes[:-1])) > 1
        if is_odd and (fills or _NEXT_IMAGE.search(file.read(begin, end - begin))):
            breaks.add(end - begin)


def _images(file: FileBytes, breaks: Breaks) -> Iterator[tuple[int, int, list[int]]]:
    """Yield where images begin and end, and the sizes of their pieces."""
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
            at, sizes = _pieces(file, begin + 11 + _color_table(kind[9]))
            yield begin, at, sizes
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
