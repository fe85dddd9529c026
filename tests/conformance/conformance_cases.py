"""The cases: each source into containers that people would choose for it, and the quick ones among them."""

from conformance_sources import SOURCES

_COMMON = (".mp4", ".mkv", ".mov")
_MORE: dict[str, tuple[str, ...]] = {
    "h264": (".ts", ".avi", ".m4v", ".m2ts", ".webm"),
    "h264-bframes": (".ts", ".avi", ".webm"),
    "opus": (".webm", ".avi", ".ts"),
    "vorbis": (".webm", ".avi"),
    "flac": (".webm", ".avi", ".ts"),
    "pcm-mkv": (".avi", ".ts", ".webm"),
    "eac3": (".ts",),
    "srt": (".webm", ".ts", ".avi"),
    "ass-font": (".webm", ".avi", ".ts"),
    "mov-text": (".webm", ".ts"),
    "webvtt": (".webm",),
    "cover-mp4": (".m4v", ".ts", ".webm"),
    "font": (".avi", ".webm"),
    "two-sounds": (".ts", ".webm"),
    "ts-aac": (".ts", ".avi"),
    "mpeg2-ts": (".ts", ".mpg"),
    "vp9": (".webm",),
    "vp9-alpha": (".webm",),
    "g711": (".avi",),
    "late-sound": (".avi", ".ts", ".webm"),
    "late-sound-mp4": (".avi",),
    "chapters": (".webm", ".ts"),
    **dict.fromkeys(("mp2", "tta", "dts", "adpcm-ms", "speex", "surround", "quad"), (".avi", ".ts")),
    "mxf": (".mxf",),
    "dnxhr": (".mxf",),
    "gif": (".gif",),
    "metadata": (".webm",),
}
_ONLY: dict[str, tuple[str, ...]] = {
    "ffv1-444-16bit": (".mkv",),
    "ffv1-rgb16": (".mkv",),
    "ffv1-gray16": (".mkv",),
    "ffv1-rgba": (".mkv", ".mov"),
    "ffv1-yuva": (".mkv", ".webm", ".mov"),
    "vp9-alpha": (".mkv",),
    "prores-alpha": (".mov", ".mkv"),
    "qtrle-alpha": (".mov", ".mkv"),
    "png-mov": (".mov", ".mkv"),
    "odd-size": (".mp4", ".mkv"),
    "gif": (".mp4", ".mkv"),
}
CASES: list[tuple[str, str]] = [
    (name, suffix) for name in SOURCES for suffix in (*_ONLY.get(name, _COMMON), *_MORE.get(name, ()))
]
QUICK: set[tuple[str, str]] = {
    ("h264", ".mp4"), ("h264", ".avi"), ("h264-bframes", ".ts"), ("h264-10bit", ".mkv"), ("vp9-alpha", ".webm"),
    ("prores-alpha", ".mov"), ("qtrle-alpha", ".mkv"), ("ffv1-rgb", ".mkv"), ("ffv1-422-10bit", ".mkv"),
    ("opus", ".ts"), ("flac", ".webm"), ("pcm-mkv", ".mp4"), ("g711", ".mkv"), ("srt", ".mp4"), ("ass-font", ".mp4"),
    ("ass-font", ".avi"), ("mov-text", ".mkv"), ("chapters", ".mp4"), ("metadata", ".mkv"), ("cover-mp4", ".mkv"),
    ("font", ".mov"), ("aspect", ".mkv"), ("rotated", ".mov"), ("bt2020", ".mkv"), ("odd-size", ".mp4"),
    ("variable-rate", ".mp4"), ("ts-aac", ".mp4"), ("late-sound", ".mkv"), ("two-sounds", ".webm"), ("mpeg2", ".mp4"),
    ("mpeg4-avi", ".mkv"),
}  # fmt: skip
