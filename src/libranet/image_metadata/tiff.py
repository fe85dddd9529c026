"""TIFF: tags of each page."""

import struct

from libranet.image_metadata.facts import (
    INCH,
    PROFILE_TAG,
    SUB_IMAGES,
    TIFF_CODING,
    TIFF_ONLY,
    UNIT,
    X_RESOLUTION,
    Y_RESOLUTION,
    ImageMetadata,
    density_of,
    first_directory,
)
from libranet.tiff_fields import (
    EXTRA_SAMPLES,
    ORIENTATION,
    SAMPLES_PER_PIXEL,
    Directory,
    Field,
    integer,
    raw,
    read_directory,
    read_pages,
    with_fields,
    write_directory,
)

_XMP_TAG = 700


def read(data: bytes) -> ImageMetadata:
    pages = []
    try:
        for page in read_pages(data):
            fields = read_directory(data, page)
            pages.append({tag: value for tag, value in fields.items() if tag not in TIFF_CODING})
    except struct.error:  # the pages before are good
        pass
    first = pages[0] if pages else {}
    carried = {tag: f for tag, f in first.items() if tag not in TIFF_ONLY | {_XMP_TAG, PROFILE_TAG}}
    exif = b"MM\0*\0\0\0\x08" + write_directory(carried, 8, ">") if carried else b""
    xmp, profile = (f.content if isinstance(f := first.get(tag), Field) else b"" for tag in (_XMP_TAG, PROFILE_TAG))
    return ImageMetadata("TIFF", exif, xmp, profile, _tiff_density(first), pages=tuple(pages))


def _tiff_density(page: Directory) -> tuple[float, float] | None:
    unit = page.get(UNIT)
    size = {2: INCH, 3: 0.01}.get(int.from_bytes(unit.content, "big") if isinstance(unit, Field) else 2)
    values = []
    for tag in (X_RESOLUTION, Y_RESOLUTION):
        value = page.get(tag)
        if not isinstance(value, Field) or len(value.content) != 8 or size is None:
            return None
        above, below = struct.unpack(">II", value.content)
        values.append(above / (below or 1) / size)
    return density_of(*values)


def write(data: bytes, metadata: ImageMetadata, *, fourth: int) -> bytes:
    pages = [*metadata.pages] if metadata.format == "TIFF" else [_tiff_fields(metadata)]
    pages = [{tag: f for tag, f in page.items() if tag != SUB_IMAGES} for page in pages]
    own = [read_directory(data, page) for page in read_pages(data)]
    count = own[0].get(SAMPLES_PER_PIXEL)
    if isinstance(count, Field) and int.from_bytes(count.content, "big") == 4:
        pages = [{**page, EXTRA_SAMPLES: integer(fourth)} for page in pages or [{}]]
    return with_fields(data, pages) if any(pages) else data


def _tiff_fields(metadata: ImageMetadata) -> Directory:
    fields = {tag: value for tag, value in first_directory(metadata.exif).items() if tag not in TIFF_CODING}
    if fields.get(ORIENTATION) != integer(metadata.orientation):  # readers refuse a file for one that does not exist
        fields.pop(ORIENTATION, None)
    if metadata.density and not {X_RESOLUTION, Y_RESOLUTION} <= fields.keys():
        across, down = (struct.pack(">II", round(100 * value * INCH), 100) for value in metadata.density)
        fields |= {X_RESOLUTION: Field(5, 1, across), Y_RESOLUTION: Field(5, 1, down), UNIT: integer(2)}
    if metadata.xmp:
        fields[_XMP_TAG] = raw(metadata.xmp, 1)
    if metadata.profile:
        fields[PROFILE_TAG] = raw(metadata.profile)
    return fields
