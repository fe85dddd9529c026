"""Sources made by Debian's ffmpeg, which shares no code with the FFmpeg inside PyAV that we read and write with."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

FFMPEG, FFPROBE = shutil.which("ffmpeg"), shutil.which("ffprobe")
RATE, FRAMES = 25, 8
_LENGTH = FRAMES / RATE


@dataclass(frozen=True)
class Recipe:
    """How to make one source."""

    suffix: str
    video: str
    """Options of ffmpeg for the video."""
    audio: tuple[str, ...] = ()
    """Options of each sound track."""
    extra: str = ""
    """Further options: metadata, dispositions, muxer."""
    subtitle: str = ""
    """Codec of a subtitle track."""
    chapters: bool = False
    font: bool = False
    cover: bool = False
    size: str = "64x48"
    pattern: str = "testsrc2"
    remux: str = ""
    """Options of a second pass that copies all streams."""
    shift: float = 0.0
    """Seconds by which the sound begins later than the video."""


X264 = "-c:v libx264 -qp 0 -preset ultrafast -bf 0"
X264B = "-c:v libx264 -preset fast -bf 2"
AAC, MP3, AC3, OPUS = "-c:a aac", "-c:a libmp3lame", "-c:a ac3", "-c:a libopus"
FLAC, PCM, VORBIS, ALAC = "-c:a flac", "-c:a pcm_s16le", "-c:a libvorbis", "-c:a alac"
FFV1 = "-c:v ffv1 -level 3"

SOURCES: dict[str, Recipe] = {
    # codecs and pixel formats
    "h264": Recipe(".mp4", f"{X264} -pix_fmt yuv420p", (AAC,)),
    "h264-bframes": Recipe(".mp4", f"{X264B} -pix_fmt yuv420p", (AAC,)),
    "h264-10bit": Recipe(".mp4", f"{X264} -pix_fmt yuv420p10le"),
    "h264-422": Recipe(".mp4", f"{X264} -pix_fmt yuv422p"),
    "h264-444": Recipe(".mkv", f"{X264} -pix_fmt yuv444p"),
    "h264-full-range": Recipe(".mp4", f"{X264} -pix_fmt yuvj420p"),
    "h264-gray": Recipe(".mkv", f"{X264} -pix_fmt gray"),
    "h264-rgb": Recipe(".mkv", "-c:v libx264rgb -qp 0 -preset ultrafast"),
    "hevc": Recipe(".mp4", "-c:v libx265 -preset ultrafast -x265-params log-level=none -pix_fmt yuv420p -tag:v hvc1"),
    "hevc-10bit": Recipe(".mkv", "-c:v libx265 -preset ultrafast -x265-params log-level=none -pix_fmt yuv420p10le"),
    "hevc-12bit-422": Recipe(".mkv", "-c:v libx265 -preset ultrafast -x265-params log-level=none -pix_fmt yuv422p12le"),
    "av1": Recipe(".mkv", "-c:v libaom-av1 -cpu-used 8 -pix_fmt yuv420p", size="96x64"),
    "av1-10bit": Recipe(".mp4", "-c:v libaom-av1 -cpu-used 8 -pix_fmt yuv420p10le", size="96x64"),
    "vp8": Recipe(".webm", "-c:v libvpx -b:v 1M", (VORBIS,)),
    "vp9": Recipe(".webm", "-c:v libvpx-vp9 -lossless 1 -pix_fmt yuv420p", (OPUS,)),
    "vp9-alpha": Recipe(".webm", "-c:v libvpx-vp9 -lossless 1 -pix_fmt yuva420p", pattern="alpha"),
    "mpeg2": Recipe(".mpg", "-c:v mpeg2video -q:v 2", ("-c:a mp2",)),
    "mpeg2-ts": Recipe(".ts", "-c:v mpeg2video -q:v 2 -bf 2", ("-c:a mp2", AC3)),
    "mpeg4-avi": Recipe(".avi", "-c:v mpeg4 -q:v 2 -bf 2", (MP3,)),
    "xvid-packed": Recipe(".avi", "-c:v libxvid -q:v 2 -bf 2", (MP3,)),
    "prores": Recipe(".mov", "-c:v prores_ks -profile:v 3", (PCM,)),
    "prores-4444": Recipe(".mov", "-c:v prores_ks -profile:v 4 -pix_fmt yuv444p10le"),
    "prores-alpha": Recipe(".mov", "-c:v prores_ks -profile:v 4 -pix_fmt yuva444p10le", pattern="alpha"),
    "dnxhr": Recipe(".mov", "-c:v dnxhd -profile:v dnxhr_hq -pix_fmt yuv422p", (PCM,), size="256x128"),
    "mjpeg": Recipe(".avi", "-c:v mjpeg -q:v 2 -pix_fmt yuvj420p", (PCM,)),
    "mjpeg-422": Recipe(".mov", "-c:v mjpeg -q:v 2 -pix_fmt yuvj422p"),
    "ffv1": Recipe(".mkv", f"{FFV1} -pix_fmt yuv420p", (FLAC,)),
    "ffv1-422-10bit": Recipe(".mkv", f"{FFV1} -pix_fmt yuv422p10le"),
    "ffv1-444-16bit": Recipe(".mkv", f"{FFV1} -pix_fmt yuv444p16le"),
    "ffv1-rgb": Recipe(".mkv", f"{FFV1} -pix_fmt bgr0"),
    "ffv1-rgba": Recipe(".mkv", f"{FFV1} -pix_fmt bgra", pattern="alpha"),
    "ffv1-rgb16": Recipe(".mkv", f"{FFV1} -pix_fmt gbrp16le"),
    "ffv1-gray16": Recipe(".mkv", f"{FFV1} -pix_fmt gray16le"),
    "ffv1-yuva": Recipe(".mkv", f"{FFV1} -pix_fmt yuva420p", pattern="alpha"),
    "ffv1-411": Recipe(".mkv", f"{FFV1} -pix_fmt yuv411p"),
    "qtrle-alpha": Recipe(".mov", "-c:v qtrle -pix_fmt argb", pattern="alpha"),
    "qtrle": Recipe(".mov", "-c:v qtrle -pix_fmt rgb24"),
    "png-mov": Recipe(".mov", "-c:v png -pix_fmt rgba", pattern="alpha"),
    "huffyuv": Recipe(".avi", "-c:v huffyuv -pix_fmt yuv422p", (PCM,)),
    "utvideo": Recipe(".mkv", "-c:v utvideo -pix_fmt yuv420p"),
    "rawvideo": Recipe(".avi", "-c:v rawvideo -pix_fmt yuv420p"),
    "v210": Recipe(".mov", "-c:v v210", size="96x48"),
    "theora": Recipe(".ogv", "-c:v libtheora -q:v 8", (VORBIS,)),
    "flv": Recipe(".flv", "-c:v flv -q:v 2", (MP3,)),
    "flv-h264": Recipe(".flv", f"{X264} -pix_fmt yuv420p", (AAC,)),
    "wmv": Recipe(".wmv", "-c:v wmv2 -q:v 2", ("-c:a wmav2",)),
    "mxf": Recipe(".mxf", "-c:v mpeg2video -q:v 2", ("-c:a pcm_s16le -ar 48000",)),
    "gif": Recipe(".gif", "-c:v gif"),
    "y4m": Recipe(".y4m", "-pix_fmt yuv420p"),
    "apng": Recipe(".apng", "-c:v apng -plays 0 -pix_fmt rgb24"),
    "3gp": Recipe(".3gp", "-c:v h263 -q:v 2", size="128x96"),
    # sound
    "two-sounds": Recipe(
        ".mp4", f"{X264} -pix_fmt yuv420p", (AAC, AC3), "-metadata:s:a:0 language=eng -metadata:s:a:1 language=deu"
    ),
    "opus": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", (OPUS,)),
    "flac": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", (FLAC,)),
    "vorbis": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", (VORBIS,)),
    "alac": Recipe(".mov", f"{X264} -pix_fmt yuv420p", (ALAC,)),
    "pcm-mkv": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", (PCM,)),
    "pcm24-mov": Recipe(".mov", f"{X264} -pix_fmt yuv420p", ("-c:a pcm_s24le",)),
    "g711": Recipe(".avi", f"{X264} -pix_fmt yuv420p", ("-c:a pcm_mulaw -ar 8000",)),
    "g711-mov": Recipe(".mov", f"{X264} -pix_fmt yuv420p", ("-c:a pcm_alaw -ar 8000",)),
    "mp3-mp4": Recipe(".mp4", f"{X264} -pix_fmt yuv420p", (MP3,)),
    "eac3": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", ("-c:a eac3",)),
    "late-sound": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", (AAC,), shift=0.2),
    "late-sound-mp4": Recipe(".mp4", f"{X264} -pix_fmt yuv420p", (AAC,), shift=0.2),
    "mp2": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", ("-c:a mp2",)),
    "tta": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", ("-c:a tta",)),
    "wavpack": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", ("-c:a wavpack",)),
    "dts": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", ("-c:a dca",), "-strict -2"),
    "truehd": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", ("-c:a truehd",), "-strict -2 -ac 2"),
    "adpcm-ms": Recipe(".avi", f"{X264} -pix_fmt yuv420p", ("-c:a adpcm_ms",)),
    "adpcm-ima": Recipe(".mov", f"{X264} -pix_fmt yuv420p", ("-c:a adpcm_ima_qt",)),
    "speex": Recipe(".flv", "-c:v flv -q:v 2", ("-c:a libspeex -ar 16000",)),
    "surround": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", (FLAC,), "-af pan=5.1|c0=c0|c1=c0|c2=c0|c3=c0|c4=c0|c5=c0"),
    "quad": Recipe(".mov", f"{X264} -pix_fmt yuv420p", (PCM,), "-af pan=quad|c0=c0|c1=c0|c2=c0|c3=c0"),
    # subtitles, chapters, attachments, tags
    "srt": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", (AAC,), subtitle="srt"),
    "ass-font": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", (AAC,), subtitle="ass", font=True),
    "mov-text": Recipe(".mp4", f"{X264} -pix_fmt yuv420p", (AAC,), subtitle="mov_text"),
    "webvtt": Recipe(".webm", "-c:v libvpx-vp9 -lossless 1 -pix_fmt yuv420p", (OPUS,), subtitle="webvtt"),
    "dvbsub": Recipe(".ts", f"{X264} -pix_fmt yuv420p", ("-c:a mp2",)),
    "chapters": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", (AAC,), chapters=True),
    "chapters-mp4": Recipe(".mp4", f"{X264} -pix_fmt yuv420p", (AAC,), chapters=True),
    "metadata": Recipe(
        ".mp4",
        f"{X264} -pix_fmt yuv420p",
        (AAC,),
        "-metadata title=Fog -metadata artist=Someone -metadata:s:v language=fra",
    ),
    "cover-mp4": Recipe(".mp4", f"{X264} -pix_fmt yuv420p", (AAC,), cover=True),
    "font": Recipe(".mkv", f"{X264} -pix_fmt yuv420p", font=True),
    "aspect": Recipe(".mp4", f"{X264} -pix_fmt yuv420p -aspect 16:9"),
    "rotated": Recipe(".mp4", f"{X264} -pix_fmt yuv420p", remux="-metadata:s:v rotate=90"),
    "bt2020": Recipe(
        ".mp4", f"{X264} -pix_fmt yuv420p10le -color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc"
    ),
    "topleft": Recipe(".mkv", f"{X264} -pix_fmt yuv420p -chroma_sample_location topleft"),
    "timecode": Recipe(".mov", f"{X264} -pix_fmt yuv420p", extra="-timecode 01:00:00:00"),
    "odd-size": Recipe(".mkv", f"{FFV1} -pix_fmt yuv420p", size="65x49"),
    "variable-rate": Recipe(".mkv", f"{X264} -pix_fmt yuv420p -vf select='not(eq(mod(n\\,3)\\,1))' -vsync vfr"),
    "ntsc": Recipe(".mp4", f"{X264} -pix_fmt yuv420p -r 30000/1001", (AAC,)),
    "ts-aac": Recipe(".ts", f"{X264} -pix_fmt yuv420p", (AAC,)),
    "ts-hevc-ac3": Recipe(".ts", "-c:v libx265 -preset ultrafast -x265-params log-level=none -pix_fmt yuv420p", (AC3,)),
    "m2ts": Recipe(".m2ts", f"{X264} -pix_fmt yuv420p", (AC3,)),
    "fragmented": Recipe(".mp4", f"{X264} -pix_fmt yuv420p", (AAC,), "-movflags frag_keyframe+empty_moov"),
    "nut": Recipe(".nut", f"{X264} -pix_fmt yuv420p", (FLAC,)),
    "open-gop": Recipe(".mkv", "-c:v libx264 -preset fast -bf 2 -g 4 -x264-params open-gop=1 -pix_fmt yuv420p", (AAC,)),
}


def make_source(name: str, folder: Path) -> Path:
    """Make a source with ffmpeg, once per folder."""
    recipe = SOURCES[name]
    path = folder / f"{name}{recipe.suffix}"
    if path.exists():
        return path
    graph = f"testsrc2=size={recipe.size}:rate={RATE}:duration={_LENGTH}"
    if recipe.pattern == "alpha":
        graph += ",format=rgba,geq=r='r(X,Y)':g='g(X,Y)':b='b(X,Y)':a='mod(X*3+Y*5+N*7,256)'"
    command = [str(FFMPEG), "-v", "error", "-y", "-bitexact", "-f", "lavfi", "-i", graph]
    inputs = 1
    maps = ["-map", "0:v"]
    for number, _ in enumerate(recipe.audio):
        if recipe.shift:
            command += ["-itsoffset", str(recipe.shift)]
        command += ["-f", "lavfi", "-i", f"sine=frequency={300 + 100 * number}:sample_rate=48000:duration={_LENGTH}"]
        maps += ["-map", f"{inputs}:a"]
        inputs += 1
    if recipe.subtitle:
        text = folder / "lines.srt"
        text.write_text(
            "1\n00:00:00,000 --> 00:00:00,150\nfirst line\n\n2\n00:00:00,160 --> 00:00:00,300\nsecond line\n"
        )
        command += ["-i", str(text)]
        maps += ["-map", f"{inputs}:s"]
        inputs += 1
    if recipe.cover:
        cover = folder / "cover.png"
        _run([str(FFMPEG), "-v", "error", "-y", "-f", "lavfi", "-i", "color=red:size=32x32:duration=0.04", str(cover)])
        command += ["-i", str(cover)]
        maps += ["-map", f"{inputs}:v"]
        inputs += 1
    if recipe.chapters:
        marks = folder / "chapters.txt"
        marks.write_text(
            ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=160\ntitle=one\n"
            "[CHAPTER]\nTIMEBASE=1/1000\nSTART=160\nEND=320\ntitle=two\n"
        )
        command += ["-i", str(marks), "-map_metadata", str(inputs)]
    command += [*maps, *recipe.video.split()]
    for number, options in enumerate(recipe.audio):
        words = options.split()
        for key, value in zip(words[::2], words[1::2], strict=True):
            command += [key.replace("-c:a", f"-c:a:{number}").replace("-ar", f"-ar:a:{number}"), value]
    if recipe.subtitle:
        command += ["-c:s", recipe.subtitle]
    if recipe.cover:
        command += ["-c:v:1", "png", "-disposition:v:1", "attached_pic"]
    if recipe.font:
        font = folder / "small.ttf"
        font.write_bytes(b"\0\1\0\0" + bytes(64))
        command += ["-attach", str(font), "-metadata:s:t", "mimetype=application/x-truetype-font"]
    command += [*recipe.extra.split(), str(path)]
    _run(command)
    if recipe.remux:
        first = path.rename(path.with_stem("first"))
        _run([str(FFMPEG), "-v", "error", "-y", "-i", str(first), "-c", "copy", *recipe.remux.split(), str(path)])
    return path


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
