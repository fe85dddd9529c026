"""Depth, transmission and flow maps: half-float OpenEXR files (scanlines, ZIP), with numpy and zlib alone.

Any OpenEXR tool opens them. Each block of 16 rows is compressed on its own and the file has a table of offsets, so a
crop inflates only the blocks it touches. The Python binding of OpenEXR always reads the whole file.
"""

import struct
import zlib
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from libranet.atomic import write_atomically
from libranet.data.frames import Box
from libranet.errors import InputError

Plane: TypeAlias = np.ndarray  # one value per pixel: [H, W], float32
FlowField: TypeAlias = np.ndarray  # a flow field: [2, H, W], float32, pixels to the right and down
Map: TypeAlias = np.ndarray  # a map as stored: [C, H, W], float32 that holds half-precision values
Half = npt.NDArray[np.float16]

MAP_CHANNELS: dict[str, tuple[tuple[str, ...], ...]] = {
    "depth": (("Z",),),
    "transmission": (("Y",), ("R", "G", "B")),
    "flow": (("u", "v"),),
}
"""Channel names by modality. A transmission has three channels where scattering depends on the wavelength."""
BLOCK_ROWS = 16
_MAGIC = struct.pack("<iI", 20000630, 2)
_HALF, _ZIP = 1, 3


def write_map(path: Path, modality: str, values: npt.NDArray[np.floating]) -> None:  # [C, H, W]
    """Write a map in half precision, atomically."""
    for names in MAP_CHANNELS[modality]:
        if len(names) == values.shape[0]:
            channels = {name: np.asarray(values[i], np.float16) for i, name in enumerate(names)}
            write_atomically(path, encode_exr(channels, level=2))
            return
    raise InputError(f"expected {modality} with {MAP_CHANNELS[modality]} as channels, got {values.shape[0]} for {path}")


def read_map(path: Path, modality: str, box: Box | None = None) -> Map:  # [C, H, W]
    """Read a map. With `box`, only its rows are decoded."""
    try:
        rows = read_exr_rows(path, top=box.top, height=box.height) if box else read_exr_rows(path)
    except OSError as error:
        raise InputError(f"could not read the {modality} map {path}: {error.strerror or error}") from error
    for names in MAP_CHANNELS[modality]:
        if set(names) == set(rows):
            values = np.stack([rows[name] for name in names]).astype(np.float32)
            if box is None:
                return values
            if box.left < 0 or box.left + box.width > values.shape[2]:
                raise InputError(f"expected columns inside 0..{values.shape[2]}, got {tuple(box)} of {path}")
            return values[:, :, box.left : box.left + box.width]
    raise InputError(f"expected {modality} with channels {MAP_CHANNELS[modality]}, got {sorted(rows)} in {path}")


def encode_exr(
    maps: dict[str, Half],  # channel name -> [H, W]
    *,
    level: int = 1,
) -> bytes:
    """Compress channels of one size without loss."""
    names = sorted(maps)
    shapes = {maps[name].shape for name in names}
    if len(shapes) != 1 or any(maps[name].dtype != np.float16 or maps[name].ndim != 2 for name in names):
        found = {name: f"{maps[name].dtype} {maps[name].shape}" for name in names}
        raise InputError(f"expected half-float channels [H, W] of one size, got {found}")
    height, width = shapes.pop()
    header = _MAGIC + _header(names, width, height)
    blocks = []
    for top in range(0, height, BLOCK_ROWS):
        rows = np.stack([maps[name][top : top + BLOCK_ROWS] for name in names], axis=1)  # [rows, channel, W]
        raw = np.ascontiguousarray(rows, dtype="<f2").tobytes()
        packed = zlib.compress(_predict(raw), level)
        blocks.append((top, packed if len(packed) < len(raw) else raw))
    offset = len(header) + 8 * len(blocks)
    table, body = [], []
    for top, data in blocks:
        table.append(offset)
        body.append(struct.pack("<ii", top, len(data)) + data)
        offset += 8 + len(data)
    return b"".join([header, struct.pack(f"<{len(table)}Q", *table), *body])


def read_exr_rows(
    path: Path,
    *,
    top: int = 0,
    height: int | None = None,
) -> dict[str, Half]:  # channel name -> [height, W]
    """Decode only the blocks that contain the rows."""
    with path.open("rb") as file:
        names, columns, rows, at = _read_header(file.read(4096), path)
        height = rows - top if height is None else height
        if top < 0 or height < 1 or top + height > rows:
            raise InputError(f"expected rows inside 0..{rows}, got {top}..{top + height} of {path}")
        first, last = top // BLOCK_ROWS, (top + height - 1) // BLOCK_ROWS
        file.seek(at + 8 * first)
        count = last - first + 1
        table = file.read(8 * count)
        if len(table) < 8 * count:
            raise InputError(f"expected a whole EXR, got a truncated file: {path}")
        parts = []
        for index, offset in enumerate(struct.unpack(f"<{count}Q", table), start=first):
            file.seek(offset)
            head = file.read(8)
            line, size = struct.unpack("<ii", head) if len(head) == 8 else (-1, -1)
            data = file.read(max(size, 0))
            if line != index * BLOCK_ROWS or len(data) != size:
                raise InputError(f"expected a whole EXR, got a truncated or damaged file: {path}")
            shape = (min(BLOCK_ROWS, rows - line), len(names), columns)
            parts.append(_unpack(data, shape, path))
    start = top - first * BLOCK_ROWS
    pixels = np.concatenate(parts)[start : start + height]
    return {name: np.ascontiguousarray(pixels[:, channel]) for channel, name in enumerate(names)}


def _unpack(data: bytes, shape: tuple[int, int, int], path: Path) -> Half:
    size = 2 * shape[0] * shape[1] * shape[2]
    if len(data) != size:
        inflate = zlib.decompressobj()
        try:
            # Asking for one byte too many makes zlib read to the end and verify its checksum.
            data = inflate.decompress(data, size + 1)
        except zlib.error as error:
            raise InputError(f"expected a whole EXR, found damaged data in {path}: {error}") from error
        if len(data) != size or not inflate.eof:
            raise InputError(f"expected a whole EXR, found a short block in {path}")
        data = _restore(data)
    return np.frombuffer(data, "<f2").reshape(shape)


def _predict(raw: bytes) -> bytes:
    """Low bytes, then high bytes, then differences: the transform of EXR's ZIP before deflate."""
    data = np.frombuffer(raw, np.uint8)
    split = np.concatenate([data[0::2], data[1::2]])
    delta = split.copy()
    delta[1:] -= split[:-1]
    delta[1:] += 128
    return delta.tobytes()


def _restore(plain: bytes) -> bytes:
    delta = np.frombuffer(plain, np.uint8).copy()
    delta[1:] += 128
    split = np.add.accumulate(delta, dtype=np.uint8)
    half = len(split) // 2
    joined = np.empty_like(split)
    joined[0::2], joined[1::2] = split[:half], split[half:]
    return joined.tobytes()


def _header(names: list[str], width: int, height: int) -> bytes:
    channels = b"".join(name.encode() + b"\0" + struct.pack("<iB3xii", _HALF, 0, 1, 1) for name in names) + b"\0"
    window = struct.pack("<iiii", 0, 0, width - 1, height - 1)
    attributes = [
        ("channels", "chlist", channels),
        ("compression", "compression", bytes([_ZIP])),
        ("dataWindow", "box2i", window),
        ("displayWindow", "box2i", window),
        ("lineOrder", "lineOrder", b"\0"),
        ("pixelAspectRatio", "float", struct.pack("<f", 1.0)),
        ("screenWindowCenter", "v2f", struct.pack("<ff", 0.0, 0.0)),
        ("screenWindowWidth", "float", struct.pack("<f", 1.0)),
    ]
    lines = [
        name.encode() + b"\0" + kind.encode() + b"\0" + struct.pack("<i", len(value)) + value
        for name, kind, value in attributes
    ]
    return b"".join(lines) + b"\0"


def _read_header(head: bytes, path: Path) -> tuple[list[str], int, int, int]:
    """Return channel names, width, height, and the position of the offset table."""
    if head[:8] != _MAGIC:
        raise InputError(f"expected a single-part scanline EXR, got another kind of file: {path}")
    attributes: dict[str, bytes] = {}
    at = 8
    try:
        while head[at] != 0:
            name_end = head.index(b"\0", at)
            name = head[at:name_end].decode("latin-1")
            kind_end = head.index(b"\0", name_end + 1)
            size = struct.unpack_from("<i", head, kind_end + 1)[0]
            at = kind_end + 5 + size
            attributes[name] = head[kind_end + 5 : at]
        left, upper, right, lower = struct.unpack("<iiii", attributes["dataWindow"])
        names, channels = [], attributes["channels"]
        while channels[:1] not in (b"\0", b""):
            channel, rest = channels.split(b"\0", 1)
            names.append(channel.decode("latin-1"))
            if struct.unpack_from("<i", rest)[0] != _HALF:
                raise InputError(f"expected half-float channels, got another type for {names[-1]!r} in {path}")
            channels = rest[16:]
        if attributes["compression"] != bytes([_ZIP]) or attributes["lineOrder"] != b"\0" or (left, upper) != (0, 0):
            raise InputError(f"expected an EXR with ZIP compression and rows from the top, got another kind: {path}")
    except (IndexError, ValueError, KeyError, struct.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"expected a whole EXR, found a damaged header in {path}") from error
    return names, right + 1, lower + 1, at + 1
