"""Images made by Pillow, tifffile and exiftool, which share no code with what reads and writes them here."""

import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image, ImageCms, PngImagePlugin

EXIFTOOL = shutil.which("exiftool")
SIZE = (48, 32)
PHOTO = (
    "-EXIF:Artist=Zoë Müller", "-EXIF:Copyright=(c) 2024", "-EXIF:DateTimeOriginal=2024:05:06 07:08:09",
    "-EXIF:Make=Maker", "-EXIF:Model=Model", "-EXIF:ExposureTime=1/250", "-EXIF:FNumber=2.8", "-EXIF:ISO=200",
    "-EXIF:UserComment=fog", "-EXIF:LensModel=35mm", "-EXIF:Software=camera 1.0", "-EXIF:ImageDescription=a valley",
)  # fmt: skip
PLACE = (
    "-GPSLatitude=47.5", "-GPSLatitudeRef=N", "-GPSLongitude=8.7", "-GPSLongitudeRef=E", "-GPSAltitude=440",
    "-GPSTimeStamp=10:11:12",
)  # fmt: skip
XMP = (
    "-XMP-dc:Title=Fog",
    "-XMP-dc:Creator=Someone",
    "-XMP-xmp:Rating=4",
    "-XMP-dc:Subject=haze",
    "-XMP-dc:Subject=hill",
)
IPTC = ("-IPTC:Headline=Fog", "-IPTC:Keywords=haze", "-IPTC:Keywords=hill", "-IPTC:By-line=Someone", "-IPTC:City=Bern")

Make = Callable[[Path], None]


def samples(channels: int = 3, dtype: str = "u1", seed: int = 0) -> np.ndarray:
    """Noise with colours everywhere, also under transparent pixels."""
    rng = np.random.default_rng(seed)
    shape = SIZE[::-1] if channels == 1 else (*SIZE[::-1], channels)
    return rng.integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype)


def profile(extra: int = 0) -> bytes:
    """sRGB as LittleCMS writes it, longer by a private tag."""
    data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    if extra:
        data += np.random.default_rng(1).bytes(extra)
        data[:4] = struct.pack(">I", len(data))
    return bytes(data)


def saved(channels: int = 3, **options: object) -> Make:
    """An image by Pillow."""

    def make(path: Path) -> None:
        Image.fromarray(samples(channels)).save(path, **options)

    return make


def tagged(*arguments: str, make: Make | None = None) -> Make:
    """An image by Pillow, and what exiftool writes into it."""

    def run(path: Path) -> None:
        (make or saved())(path)
        done = subprocess.run(
            [str(EXIFTOOL), "-q", "-overwrite_original", *arguments, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return run


def tiff(channels: int = 3, dtype: str = "u1", **options: object) -> Make:
    """An image by tifffile."""

    def make(path: Path) -> None:
        kind = "minisblack" if channels == 1 else "rgb"
        tifffile.imwrite(path, samples(channels, dtype), photometric=kind, metadata=None, software=False, **options)

    return make


def _png_text(**options: object) -> Make:
    def make(path: Path) -> None:
        info = PngImagePlugin.PngInfo()
        info.add_text("Title", "Fog")
        info.add_text("Comment", "a longer comment " * 20, zip=True)
        info.add_itxt("Author", "Zoë", "de", "Autor")
        Image.fromarray(samples()).save(path, pnginfo=info, **options)

    return make


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_with(*chunks: tuple[bytes, bytes], late: bool = False, behind: bytes = b"", channels: int = 3) -> Make:
    """A PNG file with chunks before or after its samples."""

    def make(path: Path) -> None:
        saved(channels)(path)
        data = path.read_bytes()
        added = b"".join(_chunk(*chunk) for chunk in chunks)
        at = len(data) - 12 if late else 33
        path.write_bytes(data[:at] + added + data[at:] + behind)

    return make


def jpeg_with(mark: int, content: bytes, behind: bytes = b"", **options: object) -> Make:
    """A JPEG file with a segment of its own, and what follows its end."""

    def make(path: Path) -> None:
        saved(**options)(path)
        data = path.read_bytes()
        segment = struct.pack(">BBH", 0xFF, mark, len(content) + 2) + content if content else b""
        path.write_bytes(data[:2] + segment + data[2:] + behind)

    return make


def _motion_photo(path: Path) -> None:
    film = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 20
    tagged("-XMP-GCamera:MicroVideo=1", f"-XMP-GCamera:MicroVideoOffset={len(film)}")(path)
    path.write_bytes(path.read_bytes() + film)


def _several_images(path: Path) -> None:
    images = [Image.fromarray(samples(seed=seed)) for seed in (0, 1)]
    images[0].save(path, format="MPO", save_all=True, append_images=images[1:])


def _palette(path: Path) -> None:
    Image.fromarray(samples()).quantize(16).save(path, transparency=3, dpi=(300, 300))


def _webp_unknown(path: Path) -> None:
    saved(lossless=True, icc_profile=profile())(path)
    data = path.read_bytes() + b"ABCD\x06\0\0\0hello!"
    path.write_bytes(data[:4] + struct.pack("<I", len(data) - 8) + data[8:])


def _animation(**options: object) -> Make:
    def make(path: Path) -> None:
        frames = [Image.fromarray(samples(seed=seed)) for seed in range(3)]
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=[40, 70, 100], **options)

    return make


def _tiff_pages(path: Path) -> None:
    for index in range(3):
        extra = [(269, 2, 0, f"page {index}", True), (315, 2, 0, "Someone", True)]
        tifffile.imwrite(
            path, samples(seed=index), photometric="rgb", append=index > 0, metadata=None, extratags=extra,
            resolution=(300, 300),
        )  # fmt: skip


def _associated(path: Path) -> None:
    """Colours that are multiplied by alpha, as compositing programs write them."""
    straight = samples(4).astype(float)
    straight[..., 3] = np.maximum(straight[..., 3], 1)
    colours = np.rint(straight[..., :3] * straight[..., 3:] / 255)
    data = np.concatenate([colours, straight[..., 3:]], axis=2).astype("u1")
    tifffile.imwrite(path, data, photometric="rgb", extrasamples=["assocalpha"], metadata=None, software=False)


def _gray_alpha(path: Path) -> None:
    data = samples(4)[..., :2].copy()
    tifffile.imwrite(path, data, photometric="minisblack", extrasamples=["unassalpha"], metadata=None, software=False)


GEO = [
    (33550, 12, 3, (0.5, 0.5, 0.0), True), (33922, 12, 6, (0.0, 0.0, 0.0, 440720.0, 100000.0, 0.0), True),
    (34735, 3, 8, (1, 1, 0, 1, 1024, 0, 1, 1), True), (34737, 2, 0, "WGS 84|", True), (42113, 2, 0, "-9999", True),
]  # fmt: skip
TEXT = [(315, 2, 0, "Someone", True), (33432, 2, 0, "(c) Someone", True), (65000, 7, 5, b"own!!", True)]


def _gray_with_a_clear_value(bits: int) -> Make:
    """A gray PNG file that calls one of its grays transparent."""

    def make(path: Path) -> None:
        array = samples(1, f"u{bits // 8}")
        array[:4] = 77
        Image.fromarray(array).save(path, transparency=77)

    return make


def appended(make_image: Make) -> Make:
    """An image with data behind it."""

    def make(path: Path) -> None:
        make_image(path)
        path.write_bytes(path.read_bytes() + b"data that a program appended")

    return make


SOURCES: dict[str, Make] = {
    # JPEG
    "plain.jpg": saved(quality=90),
    "gray.jpg": saved(1, quality=90, dpi=(200, 100)),
    "444.jpg": saved(quality=90, subsampling=0),
    "422.jpg": saved(quality=90, subsampling=1),
    "420.jpg": saved(quality=90, subsampling=2),
    "progressive.jpg": saved(quality=90, progressive=True, subsampling=0),
    "dpi.jpg": saved(dpi=(300, 300)),
    "comment.jpg": saved(comment="two words"),
    "exif.jpg": tagged(*PHOTO),
    "gps.jpg": tagged(*PHOTO, *PLACE),
    "turned.jpg": tagged("-EXIF:Orientation#=6", *PHOTO),
    "unknown-turn.jpg": tagged("-EXIF:Orientation#=9", *PHOTO),
    "unicode-comment.jpg": tagged("-EXIF:UserComment=雾", "-EXIF:XPTitle=雾"),
    "xmp.jpg": tagged(*XMP),
    "iptc.jpg": tagged(*IPTC),
    "profile.jpg": saved(icc_profile=profile()),
    "large-profile.jpg": tagged(*PHOTO, *XMP, make=saved(icc_profile=profile(200_000))),
    "everything.jpg": tagged(
        *PHOTO, *PLACE, *XMP, *IPTC, "-Comment=two words", make=saved(icc_profile=profile(), dpi=(300, 300))
    ),
    "motion-photo.jpg": _motion_photo,
    "several-images.jpg": _several_images,
    "unknown-app.jpg": jpeg_with(0xE7, b"MYAPP\0some bytes"),
    "ducky.jpg": jpeg_with(0xEC, b"Ducky\0\1\0\4\0\0\0\x50\0\0"),
    "credentials.jpg": jpeg_with(0xEB, b"JP\0\1\0\0\0\1\0\0\0\x10jumbjumd"),
    "samsung-trailer.jpg": jpeg_with(0, b"", behind=b"some data of a camera" * 30),
    "thumbnail.jpg": tagged(*PHOTO, "-EXIF:ThumbnailOffset=", make=saved()),
    # PNG
    "plain.png": saved(),
    "gray.png": saved(1, dpi=(150, 150)),
    "rgba.png": saved(4, dpi=(150, 150)),
    "palette.png": _palette,
    "text.png": _png_text(),
    "text-dpi.png": _png_text(dpi=(300, 300)),
    "late-text.png": png_with((b"tEXt", b"Comment\0behind the samples"), late=True),
    "exif.png": tagged(*PHOTO, *PLACE),
    "late-exif.png": png_with((b"eXIf", b"MM\0*\0\0\0\x08\0\1\x01\x3b\0\2\0\0\0\4abc\0\0\0\0\0"), late=True),
    "xmp.png": tagged(*XMP),
    "profile.png": saved(icc_profile=profile()),
    "large-profile.png": tagged(*PHOTO, *XMP, make=saved(icc_profile=profile(200_000))),
    "gamma.png": png_with(
        (b"gAMA", struct.pack(">I", 45455)),
        (b"cHRM", struct.pack(">8I", *[31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000])),
    ),
    "srgb.png": png_with((b"sRGB", b"\1"), (b"tIME", struct.pack(">HBBBBB", 2024, 5, 6, 7, 8, 9))),
    "hdr.png": png_with((b"cICP", bytes([9, 16, 0, 1]))),
    "background.png": png_with((b"bKGD", struct.pack(">3H", 1, 2, 3)), (b"sBIT", bytes([5, 6, 5]))),
    "palette-background.png": png_with((b"bKGD", bytes([3])), channels=3),
    "offset.png": png_with(
        (b"oFFs", struct.pack(">iiB", 3, 4, 0)),
        (b"pCAL", b"scale\0" + struct.pack(">iiBB", 0, 255, 0, 2) + b"m\0" + b"0\0" + b"1"),
    ),
    "private-safe.png": png_with((b"prVt", b"hello")),
    "private-unsafe.png": png_with((b"prVT", b"hello")),
    "credentials.png": png_with((b"caBX", b"\0\0\0\x10jumbjumd")),
    "behind.png": png_with(behind=b"data that a program appended"),
    "clear-gray.png": _gray_with_a_clear_value(8),
    "clear-gray-16.png": _gray_with_a_clear_value(16),
    "animation-behind-a-still.png": _animation(default_image=True),
    "behind.webp": appended(saved(lossless=True)),
    "behind.bmp": appended(saved()),
    "animation.png": _animation(),
    "animation-tagged.png": tagged(*PHOTO, *XMP, make=_animation()),
    # WebP
    "plain.webp": saved(lossless=True),
    "rgba.webp": saved(4, lossless=True, exact=True),
    "exif.webp": tagged(*PHOTO, *PLACE, make=saved(lossless=True)),
    "xmp.webp": tagged(*XMP, make=saved(lossless=True)),
    "profile.webp": saved(lossless=True, icc_profile=profile(100_000)),
    "everything.webp": tagged(*PHOTO, *XMP, make=saved(4, lossless=True, exact=True, icc_profile=profile())),
    "unknown-chunk.webp": _webp_unknown,
    "animation.webp": _animation(lossless=True, loop=3),
    "animation-tagged.webp": tagged(*PHOTO, *XMP, make=_animation(lossless=True)),
    # TIFF
    "plain.tif": tiff(),
    "gray16.tif": tiff(1, "u2"),
    "rgb16.tif": tiff(3, "u2", resolution=(300, 300)),
    "rgba.tif": tiff(4, extrasamples=["unassalpha"]),
    "rgba-associated.tif": _associated,
    "gray-alpha.tif": _gray_alpha,
    "rgba16.tif": tiff(4, "u2", extrasamples=["unassalpha"]),
    "big-endian.tif": tiff(3, "u2", byteorder=">", extratags=[*TEXT, *GEO], resolution=(72, 72)),
    "big.tif": tiff(bigtiff=True, extratags=TEXT, resolution=(300, 300)),
    "deflate.tif": tiff(compression="zlib", extratags=TEXT),
    "packbits.tif": saved(compression="packbits", dpi=(150, 150)),
    "lzw.tif": tagged(*PHOTO, make=saved(compression="tiff_lzw", dpi=(150, 150))),
    "geo.tif": tiff(extratags=GEO),
    "artist-date.tif": tiff(
        extratags=TEXT, datetime="2024:05:06 07:08:09", description="a valley", resolution=(300, 200)
    ),
    "centimetres.tif": tiff(resolution=(100, 100), resolutionunit="CENTIMETER"),
    "turned.tif": tiff(extratags=[(274, 3, 1, 6, True)]),
    "turned-rgba.tif": tiff(4, extrasamples=["unassalpha"], extratags=[(274, 3, 1, 3, True)]),
    "exif.tif": tagged(*PHOTO, *PLACE, make=tiff()),
    "xmp.tif": tagged(*XMP, make=tiff()),
    "iptc.tif": tagged(*IPTC, make=tiff()),
    "everything.tif": tagged(*PHOTO, *PLACE, *XMP, *IPTC, make=tiff(iccprofile=profile(), extratags=GEO)),
    "large-profile.tif": tiff(iccprofile=profile(200_000)),
    "pages.tif": _tiff_pages,
    # BMP
    "plain.bmp": saved(),
    "dpi.bmp": saved(dpi=(300, 300)),
    "rgba.bmp": saved(4),
}
_SETS = {
    "exif": PHOTO,
    "gps": (*PHOTO, *PLACE),
    "xmp": XMP,
    "iptc": IPTC,
    "both": (*PHOTO, *XMP),
    "turned": ("-EXIF:Orientation#=8",),
    "dated": ("-EXIF:DateTimeOriginal=2024:05:06 07:08:09", "-EXIF:OffsetTimeOriginal=+02:00"),
    "lens": ("-EXIF:LensMake=Maker", "-EXIF:FocalLength=35", "-EXIF:ExposureCompensation=-0.7", "-EXIF:Flash#=16"),
    "owner": ("-EXIF:OwnerName=Zoë", "-EXIF:SerialNumber=123", "-XMP-dc:Rights=(c) Zoë"),
}
_SHAPES: dict[str, Make] = {
    "gray.jpg": saved(1, quality=90),
    "fine.jpg": saved(subsampling=0, icc_profile=profile()),
    "progressive.jpg": saved(progressive=True, dpi=(240, 240)),
    "gray.png": saved(1),
    "rgba.png": saved(4, dpi=(96, 96)),
    "profiled.png": saved(icc_profile=profile(70_000)),
    "rgba.webp": saved(4, lossless=True),
    "lossy.webp": saved(quality=80),
    "gray.tif": tiff(1),
    "rgba.tif": tiff(4, extrasamples=["unassalpha"]),
    "rgb16.tif": tiff(3, "u2", resolution=(300, 300)),
    "big-endian.tif": tiff(byteorder=">", iccprofile=profile()),
}
COMBINED: dict[str, Make] = {
    f"{words}-{shape}": tagged(*_SETS[words], make=make)
    for shape, make in _SHAPES.items()
    for words in _SETS
    if words != "iptc" or shape.endswith((".jpg", ".tif"))
}
"""Every set of tags in every shape of image, each into its own format and another."""


def both_targets(name: str) -> tuple[str, str]:
    """The formats that a combination goes into."""
    suffix = Path(name).suffix
    return suffix, {".png": ".tif"}.get(suffix, ".png")


TARGETS = (".jpg", ".png", ".webp", ".tif", ".bmp")
QUICK = {
    ("everything.jpg", ".jpg"), ("everything.jpg", ".png"), ("large-profile.jpg", ".jpg"), ("text.png", ".png"),
    ("gamma.png", ".png"), ("xmp.png", ".png"), ("rgba.png", ".jpg"), ("everything.webp", ".webp"),
    ("rgba.tif", ".tif"),
    ("rgba-associated.tif", ".tif"), ("everything.tif", ".tif"), ("everything.tif", ".png"), ("turned.tif", ".tif"),
}  # fmt: skip
"""Cases of `make test`; the others run in `make test-more`."""
ANIMATED = ("animation", "pages")
CASES = [
    (name, suffix)
    for name in SOURCES
    for suffix in TARGETS
    if not (name.startswith(ANIMATED) and suffix not in (".png", ".webp", ".tif"))
    and not ("16" in name and suffix in (".jpg", ".webp", ".bmp"))
    and not (name == "clear-gray-16.png" and suffix == ".tif")  # no reader of others unpacks LZW of 16 bits
    and not (name == "big-endian.tif" and suffix in (".jpg", ".webp", ".bmp"))
]
