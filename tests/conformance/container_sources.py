"""Videos whose containers know more than FFmpeg writes: made by mkvmerge, Debian's ffmpeg, and boxes put in by hand."""

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from conformance_sources import FFMPEG

MKVMERGE, MKVEXTRACT = shutil.which("mkvmerge"), shutil.which("mkvextract")
CHAPTERS = """<?xml version="1.0"?><Chapters><EditionEntry>
<ChapterAtom><ChapterTimeStart>00:00:00.000</ChapterTimeStart><ChapterTimeEnd>00:00:00.160</ChapterTimeEnd>
<ChapterDisplay><ChapterString>First</ChapterString><ChapterLanguage>eng</ChapterLanguage></ChapterDisplay>
<ChapterDisplay><ChapterString>Erstes</ChapterString><ChapterLanguage>ger</ChapterLanguage></ChapterDisplay>
{inner}</ChapterAtom>
<ChapterAtom><ChapterTimeStart>00:00:00.160</ChapterTimeStart><ChapterTimeEnd>00:00:00.320</ChapterTimeEnd>
<ChapterDisplay><ChapterString>Second</ChapterString><ChapterLanguage>eng</ChapterLanguage></ChapterDisplay></ChapterAtom>
</EditionEntry></Chapters>"""
INNER = """<ChapterAtom><ChapterTimeStart>00:00:00.040</ChapterTimeStart><ChapterTimeEnd>00:00:00.080</ChapterTimeEnd>
<ChapterDisplay><ChapterString>Inner</ChapterString><ChapterLanguage>eng</ChapterLanguage></ChapterDisplay></ChapterAtom>"""
ORDERED = CHAPTERS.format(inner="").replace(
    "<EditionEntry>", "<EditionEntry><EditionFlagOrdered>1</EditionFlagOrdered>"
)
TAGS = '<?xml version="1.0"?><Tags><Tag><Targets><TargetTypeValue>50</TargetTypeValue></Targets>{}</Tag></Tags>'
REPEATED = (
    "<Simple><Name>ARTIST</Name><String>Anna</String></Simple><Simple><Name>ARTIST</Name><String>Ben</String></Simple>"
)
NESTED = "<Simple><Name>ORIGINAL</Name><String>film</String><Simple><Name>URL</Name><String>http://a</String></Simple></Simple>"
LANGUAGES = (
    "<Simple><Name>TITLE</Name><String>Fog</String><TagLanguage>eng</TagLanguage></Simple>"
    "<Simple><Name>TITLE</Name><String>Nebel</String><TagLanguage>ger</TagLanguage></Simple>"
)
ENTRY = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"avc1")
SPHERICAL = bytes.fromhex("ffcc8263f8554a938814587a02521fdd") + (
    b'<rdf:SphericalVideo xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
    b' xmlns:GSpherical="http://ns.google.com/videos/1.0/spherical/">'
    b"<GSpherical:Spherical>true</GSpherical:Spherical><GSpherical:Stitched>true</GSpherical:Stitched>"
    b"<GSpherical:StitchingSoftware>me</GSpherical:StitchingSoftware>"
    b"<GSpherical:ProjectionType>equirectangular</GSpherical:ProjectionType></rdf:SphericalVideo>"
)
XMP = bytes.fromhex("be7acfcb97a942e89c71999491e3afac") + b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a>fog</a></x:xmpmeta>'

Make = Callable[[Path], None]


def run(*command: object) -> None:
    """Run a tool, or say why it failed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def base(path: Path) -> Path:
    """A short film with sound, which the others are made from."""
    film = path.parent / "base.mp4"
    if not film.exists():
        run(
            FFMPEG,
            "-v",
            "error",
            "-y",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=64x48:rate=25:duration=0.32",
            "-f",
            "lavfi",
            "-i",
            "sine=duration=0.32",
            "-c:v",
            "libx264",
            "-qp",
            "0",
            "-preset",
            "ultrafast",
            "-pix_fmt",
            "yuv420p",
            "-c:a",
            "aac",
            film,
        )
    return film


def merged(*options: str, **files: str) -> Make:
    """A file by mkvmerge; words in braces name text files."""

    def make(path: Path) -> None:
        film = base(path)
        for name, text in files.items():
            (path.parent / f"{path.stem}.{name}").write_text(text)
        words = [path.parent / f"{path.stem}.{w.strip('{}')}" if w.startswith("{") else w for w in options]
        run(MKVMERGE, "-q", "-o", path, *words, film)

    return make


def covered(*names: str) -> Make:
    """A file with attached images."""

    def make(path: Path) -> None:
        image = path.parent / "red.png"
        run(FFMPEG, "-v", "error", "-y", "-f", "lavfi", "-i", "color=red:size=32x32:duration=0.04", image)
        words: list[object] = []
        for name in names:
            words += ["--attachment-name", name, "--attachment-mime-type", "image/png"]
            words += ["--attachment-description", f"about {name}", "--attach-file", image]
        run(MKVMERGE, "-q", "-o", path, *words, base(path))

    return make


def box(name: bytes, content: bytes) -> bytes:
    """The bytes of a box."""
    return struct.pack(">I4s", 8 + len(content), name) + content


def boxed(*added: tuple[tuple[bytes, ...], bytes]) -> Make:
    """An .mp4 file with further boxes; its index comes last, so nothing else moves."""

    def make(path: Path) -> None:
        data = base(path).read_bytes()
        for parents, content in added:
            data = inserted(data, parents, content)
        path.write_bytes(data)

    return make


def inserted(data: bytes, parents: tuple[bytes, ...], content: bytes) -> bytes:
    """Put a box at the end of another."""
    if not parents:
        return data + content
    places = box_places(data, parents)
    changed = bytearray(data)
    for place in places:
        struct.pack_into(">I", changed, place, struct.unpack_from(">I", data, place)[0] + len(content))
    end = places[-1] + struct.unpack_from(">I", data, places[-1])[0]
    return bytes(changed[:end]) + content + bytes(changed[end:])


def box_places(data: bytes, names: tuple[bytes, ...]) -> list[int]:
    """Where the first box of each name is, one inside of the other."""
    at, end, found = 0, len(data), []
    for number, name in enumerate(names):
        while at + 8 <= end:
            size, kind = struct.unpack_from(">I4s", data, at)
            if kind == name:
                break
            at += size
        else:
            return []
        found.append(at)
        end = at + size
        at += 8 + (8 if name == b"stsd" else 78 if number and names[number - 1] == b"stsd" else 0)
    return found


def copied(*options: str, source: Make) -> Make:
    """A file that Debian's ffmpeg copied from another."""

    def make(path: Path) -> None:
        first = path.with_name(f"{path.stem}-first.mkv")
        source(first)
        run(FFMPEG, "-v", "error", "-y", "-i", first, "-map", "0", "-c", "copy", *options, path)

    return make


def filmed(*options: str) -> Make:
    """A file by Debian's ffmpeg from the common film."""

    def make(path: Path) -> None:
        run(FFMPEG, "-v", "error", "-y", "-i", base(path), *options, path)

    return make


def subtitled(text: str, *options: str) -> Make:
    """The film with a subtitle file."""

    def make(path: Path) -> None:
        lines = path.with_suffix(".srt")
        lines.write_text(text)
        run(
            FFMPEG,
            "-v",
            "error",
            "-y",
            "-i",
            base(path),
            "-i",
            lines,
            "-map",
            "0",
            "-map",
            "1",
            "-c",
            "copy",
            *options,
            path,
        )

    return make


def blu_ray(path: Path) -> None:
    """The film with a drawn subtitle, in pieces as Blu-rays have them: a square appears and vanishes."""

    def pieces(time: int, number: int, *contents: tuple[int, bytes]) -> bytes:
        place = struct.pack(">HBBHH", 0, 0, 0, 8, 8) if contents else b""
        screen = struct.pack(">HHBHBBBB", 64, 48, 16, number, 128, 0, 0, len(place) // 8) + place
        window = struct.pack(">BBHHHH", 1, 0, 8, 8, 16, 8)
        return b"".join(
            b"PG" + struct.pack(">IIBH", time, 0, kind, len(content)) + content
            for kind, content in ((0x16, screen), (0x17, window), *contents, (0x80, b""))
        )

    rows = bytes([0, 0x90, 1, 0, 0]) * 8
    square = struct.pack(">HBB", 0, 0, 0xC0) + (len(rows) + 4).to_bytes(3, "big") + struct.pack(">HH", 16, 8) + rows
    drawn = pieces(9000, 0, (0x14, bytes([0, 0, 1, 200, 128, 128, 255])), (0x15, square)) + pieces(18000, 1)
    path.with_suffix(".sup").write_bytes(drawn)
    copied = ("-map", "0", "-map", "1", "-c", "copy")
    run(FFMPEG, "-v", "error", "-y", "-i", base(path), "-i", path.with_suffix(".sup"), *copied, path)


MARKUP = """1
00:00:00,000 --> 00:00:00,150
<i>first</i> <b>line</b> & more
two

2
00:00:00,160 --> 00:00:00,300
<u>under</u>
"""
COLOURED = MARKUP.replace("<u>under</u>", '<font color="#ff0000">red</font> {\\an8}up')
LONG = MARKUP.replace("two", "é long text " * 6000)
STEREO = ("--stereo-mode", "0:top_bottom_left_first")
SPHERE = ("--projection-type", "0:1", "--projection-pose-yaw", "0:10")

SOURCES: dict[str, Make] = {
    # Matroska
    "crop.mkv": merged("--cropping", "0:2,4,6,8"),
    "stereo-top-bottom.mkv": merged(*STEREO),
    "stereo-side.mkv": merged("--stereo-mode", "0:side_by_side_left_first"),
    "sphere.mkv": merged(*SPHERE),
    "cube.mkv": merged("--projection-type", "0:2", "--projection-private", "0:000000000000000000000000"),
    "crop-stereo-sphere.mkv": merged("--cropping", "0:2,4,6,8", *STEREO, *SPHERE),
    "anamorphic-crop.mkv": merged("--cropping", "0:4,0,4,0", "--display-dimensions", "0:128x48"),
    "languages.mkv": merged("--language", "0:pt-BR", "--language", "1:zh-Hant"),
    "track-names.mkv": merged("--track-name", "0:Main view", "--track-name", "1:Voice", "--language", "1:fr"),
    "flags.mkv": merged("--hearing-impaired-flag", "1:1", "--original-flag", "1:1", "--commentary-flag", "1:1"),
    "chapters-two-languages.mkv": merged("--chapters", "{xml}", xml=CHAPTERS.format(inner="")),
    "chapters-nested.mkv": merged("--chapters", "{xml}", xml=CHAPTERS.format(inner=INNER)),
    "chapters-ordered.mkv": merged("--chapters", "{xml}", xml=ORDERED),
    "tags-repeated.mkv": merged("--global-tags", "{xml}", xml=TAGS.format(REPEATED)),
    "tags-nested.mkv": merged("--global-tags", "{xml}", xml=TAGS.format(NESTED)),
    "tags-languages.mkv": merged("--global-tags", "{xml}", xml=TAGS.format(LANGUAGES)),
    "title.mkv": merged("--title", "A title"),
    "cover-name.mkv": covered("cover_land.png"),
    "two-covers.mkv": covered("cover.png", "small_cover.png"),
    "everything.mkv": merged(
        "--cropping",
        "0:2,4,6,8",
        *STEREO,
        "--language",
        "0:pt-BR",
        "--title",
        "Fog",
        "--chapters",
        "{chapters}",
        "--global-tags",
        "{tags}",
        chapters=CHAPTERS.format(inner=INNER),
        tags=TAGS.format(REPEATED + NESTED + LANGUAGES),
    ),
    # mp4 and mov
    "clean-aperture.mp4": boxed((ENTRY, box(b"clap", struct.pack(">8I", 56, 1, 36, 1, 0, 1, 0, 1)))),
    "sphere-uuid.mp4": boxed(((b"moov", b"trak"), box(b"uuid", SPHERICAL))),
    "sphere-box.mp4": copied("-strict", "unofficial", source=merged(*SPHERE)),
    "stereo-box.mp4": copied("-strict", "unofficial", source=merged(*STEREO)),
    "xmp.mp4": boxed(((), box(b"uuid", XMP))),
    "camera-data.mp4": boxed(((b"moov", b"udta"), box(b"GPMF", b"data of a camera"))),
    "unknown-box.mp4": boxed(((b"moov",), box(b"abcd", b"something"))),
    "dolby-vision.mp4": boxed((ENTRY, box(b"dvvC", bytes([1, 0, 0x10, 0x45]) + bytes(20)))),
    "spatial.mov": boxed((ENTRY, box(b"vexu", box(b"eyes", b"")))),
    "field-of-view.mp4": boxed((ENTRY, box(b"hfov", struct.pack(">I", 63400)))),
    "gamma.mp4": boxed((ENTRY, box(b"gama", struct.pack(">I", 2 << 16)))),
    "two-videos.mp4": filmed("-map", "0:v", "-map", "0:v", "-map", "0:a", "-c", "copy"),
    "tags.mp4": filmed(
        "-c", "copy", "-movflags", "use_metadata_tags", "-metadata", "mood=grey", "-metadata", "title=Fog"
    ),
    "handler.mov": filmed("-c", "copy", "-metadata:s:a:0", "handler_name=Voice", "-metadata", "location=+47.5+008.7/"),
    "track-name.mp4": filmed("-c", "copy", "-metadata:s:a:0", "title=Voice", "-metadata:s:v", "title=Main view"),
    # transport streams
    "service.ts": filmed("-c", "copy", "-metadata", "service_name=Fog 1", "-metadata", "service_provider=Zoë"),
    # GIF
    "loops-3.gif": filmed("-loop", "3"),
    "loops-once.gif": filmed("-loop", "-1"),
    "loops-endless.gif": filmed("-loop", "0"),
    # subtitles
    "markup.mkv": subtitled(MARKUP, "-c:s", "srt"),
    "markup.mp4": subtitled(MARKUP, "-c:s", "mov_text"),
    "markup.webm": subtitled(MARKUP, "-c:v", "libvpx-vp9", "-c:a", "libopus", "-c:s", "webvtt"),
    "markup-ass.mkv": subtitled(MARKUP, "-c:s", "ass"),
    "coloured.mkv": subtitled(COLOURED, "-c:s", "srt"),
    "drawn.mkv": blu_ray,
    "drawn.m2ts": blu_ray,
    "long.mkv": subtitled(LONG, "-c:s", "srt"),
}
TARGETS = (".mkv", ".mp4", ".mov", ".webm", ".avi", ".ts")
CASES = [(name, suffix) for name in SOURCES for suffix in (*TARGETS, *((".gif",) if name.endswith(".gif") else ()))]
QUICK = {
    ("everything.mkv", ".mkv"), ("everything.mkv", ".mp4"), ("clean-aperture.mp4", ".mp4"), ("sphere-box.mp4", ".mkv"),
    ("loops-3.gif", ".gif"), ("long.mkv", ".mp4"),
}  # fmt: skip
"""Cases of `make test`."""
