"""What exiftool lists of an image, and whether it is in another image or named in a warning."""

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from image_sources import EXIFTOOL

CODING = {
    "ImageSize", "Megapixels", "ImageWidth", "ImageHeight", "BitDepth", "ColorType", "Compression", "Filter",
    "Interlace",
    "StripOffsets", "StripByteCounts", "RowsPerStrip", "TileWidth", "TileLength", "TileOffsets", "TileByteCounts",
    "PlanarConfiguration", "BitsPerSample", "SamplesPerPixel", "SampleFormat", "Predictor", "PhotometricInterpretation",
    "SubfileType", "Palette", "Transparency", "ColorComponents", "VP8Version", "HorizontalScale", "VerticalScale",
    "AlphaIsUsed", "WebP_Flags", "YCbCrSubSampling", "EncodingProcess", "BMPVersion", "Planes", "ImageLength",
    "NumColors",
    "NumImportantColors", "RedMask", "GreenMask", "BlueMask", "AlphaMask", "ColorSpace", "RenderingIntent",
    "Duration", "PageCount", "ProfileName", "BackgroundColor", "AnimationFrames", "FrameCount",
    "ExtraSamples", "DCTEncodeVersion", "APP14Flags0", "APP14Flags1", "ColorTransform", "JFIFVersion", "ImageDataSize",
    "NewGUID", "ExifByteOrder", "MPImageStart", "DependentImage1EntryNumber", "ThumbnailOffset", "CurrentIPTCDigest",
    "XMPToolkit", "ExifToolVersion", "SourceFile", "Warning", "RedEndpoint", "GreenEndpoint", "BlueEndpoint",
    "GammaRed",
    "GammaGreen", "GammaBlue", "MPImageLength",
}  # fmt: skip
"""What describes the coded samples, or the tool."""
NAMES = {
    "IFD0": (
        "EXIF",
        "artist",
        "date",
        "camera",
        "software",
        "description",
        "copyright",
        "resolution",
        "orientation",
        "TIFF tag",
        "GeoTIFF",
        "document name",
    ),
    "ExifIFD": ("EXIF",),
    "GPS": ("GPS", "EXIF"),
    "IFD1": ("EXIF thumbnail", "document name"),
    "RIFF": ("chunk",),
    "InteropIFD": ("EXIF",),
    "XMP": ("XMP",),
    "IPTC": ("IPTC",),
    "Photoshop": ("IPTC", "Photoshop"),
    "ICC": ("colour profile",),
    "JFIF": ("resolution",),
    "PNG-pHYs": ("resolution",),
    "GeoTiff": ("GeoTIFF",),
    "PNG-cICP": ("colour tags",),
    "MPF": ("list of images",),
    "MPImage": ("list of images", "data behind"),
    "Trailer": ("data behind",),
    "Ducky": ("Ducky",),
    "JUMBF": ("content credentials",),
    "Comment": ("comment",),
    "IFD2": ("TIFF tag", "page", "artist", "document"),
}
"""Words of our warnings for each group of exiftool."""
KINDS = {
    "IFD0": "EXIF and TIFF tags",
    "ExifIFD": "EXIF and TIFF tags",
    "InteropIFD": "EXIF and TIFF tags",
    "GPS": "GPS",
    "XMP": "XMP",
    "IPTC": "IPTC",
    "Photoshop": "IPTC",
    "ICC": "colour profile",
    "JFIF": "resolution",
    "PNG-pHYs": "resolution",
    "GeoTiff": "GeoTIFF",
    "MPF": "further images",
    "MPImage": "further images",
    "PNG-cICP": "HDR colour tags",
    "IFD": "EXIF and TIFF tags",
    "RIFF": "other chunks",
    "JUMBF": "content credentials",
}
LOOPS = ("AnimationPlays", "AnimationLoopCount")
PNG_NAMES = {
    "Gamma": "gamma", "WhitePointX": "primaries", "SRGBRendering": "sRGB intent", "ModifyDate": "date",
    "SignificantBits": "significant bits",
}  # fmt: skip


@cache
def listed(path: Path) -> dict[str, object]:
    """Everything that exiftool shows of a file, by group and name."""
    done = subprocess.run(
        [str(EXIFTOOL), "-j", "-a", "-G1", "-u", "-n", str(path)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)[0]


def verdicts(source: Path, output: Path, said: str) -> Iterator[tuple[str, str, str]]:
    """Yield what exiftool shows of the source: its kind, its name, and whether it is kept, named or silent."""
    before, after = listed(source), listed(output)
    values = {(key.split(":")[-1], str(value)) for key, value in after.items()}
    for key, value in before.items():
        group, _, tag = key.rpartition(":")
        if (group in ("System", "File", "ExifTool", "Composite", "") and tag != "Comment") or tag in CODING:
            continue
        if group == "JFIF" and before.get("JFIF:ResolutionUnit") == 0:
            continue  # square pixels, and nothing else
        kept = after.get(key) == value or (tag, str(value)) in values or is_resolution(tag, value, after)
        kept |= tag in LOOPS and any(after.get(f"{f}:{name}") == value for f in ("PNG", "RIFF") for name in LOOPS)
        named = any(word in said for word in words(group, tag))
        yield kind_of(group, tag), f"{key} = {str(value)[:60]!r}", "kept" if kept else "named" if named else "silent"


def silent_losses(source: Path, output: Path, said: str) -> list[str]:
    """Tags that exiftool shows in the source, not in the output, and that no warning names."""
    return [what for _, what, verdict in verdicts(source, output, said) if verdict == "silent"]


def kind_of(group: str, tag: str) -> str:
    """The row of docs/kept.md for a tag."""
    if tag in LOOPS:
        return "loops"
    if tag == "Comment":
        return "comment" if group == "File" else "text of PNG"
    if group == "PNG":
        return {"text": "text of PNG"}.get(PNG_NAMES.get(tag, "text"), PNG_NAMES.get(tag, "text"))
    return next((kind for known, kind in KINDS.items() if group.startswith(known)), group)


def words(group: str, tag: str) -> tuple[str, ...]:
    if tag in LOOPS:
        return ("loops",)
    if tag == "Comment" and group == "File":
        return ("comment",)
    if group == "PNG":
        return (PNG_NAMES.get(tag, "text"), "primaries", "chunk", "background", f"text ({tag})")
    return next((found for known, found in NAMES.items() if group.startswith(known)), (group,))


def is_resolution(tag: str, value: object, after: dict[str, object]) -> bool:
    """Formats count pixels per metre, centimetre or inch."""
    if "Unit" in tag:
        return any("Unit" in key or "PixelsPerMeter" in key for key in after)
    across = ("XResolution", "PixelsPerUnitX", "PixelsPerMeterX"), ("YResolution", "PixelsPerUnitY", "PixelsPerMeterY")
    for names in across:
        if tag in names and isinstance(value, int | float):
            found = [float(v) for k, v in after.items() if k.split(":")[-1] in names and isinstance(v, int | float)]
            return any(
                abs(f * unit - value) <= 0.02 * value + 1
                for f in found
                for unit in (1, 0.0254, 39.37, 2.54, 1 / 2.54, 100, 0.01)
            )
    return False
