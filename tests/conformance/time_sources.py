"""Sources whose times are hard: made by Debian's ffmpeg and mkvtoolnix, and joined, cut and patched."""

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from conformance_sources import FFMPEG

MKVMERGE = shutil.which("mkvmerge")
_VIDEO = "-c:v libx264 -qp 0 -preset ultrafast -bf 0 -g 10 -pix_fmt yuv420p"
_B_FRAMES = "-c:v libx264 -qp 4 -preset veryfast -bf 2 -g 10 -pix_fmt yuv420p"
_WRAP = 2**33 / 90000
"""Seconds after which the clock of a transport stream begins anew."""
_SILENT = "-af aselect='lt(t,0.3)+gt(t,0.8)'"
"""Half a second without sound."""
_RAW = "-muxdelay 0 -muxpreload 0"


def _run(*words: str | Path) -> None:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode > (words[0] == MKVMERGE):  # mkvmerge's 1 is a warning
        raise RuntimeError(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def encode(path: Path, *, seconds=1.2, video=_VIDEO, audio="-c:a aac", extra="", late=0.0, sound=None, rate=25) -> Path:
    """Make a file with a moving pattern and a tone; `late` seconds of sound are missing at the beginning."""
    words = f"-v error -y -bitexact -f lavfi -i testsrc2=size=64x48:rate={rate}:duration={seconds}".split()
    if audio:
        words += (
            f"-itsoffset {late} -f lavfi -i sine=frequency=300:sample_rate=48000:duration={sound or seconds}".split()
        )
    _run(str(FFMPEG), *words, *video.split(), *audio.split(), *extra.split(), path)
    return path


def _copy(source: Path, path: Path, *, before="", after="-c copy") -> Path:
    _run(str(FFMPEG), "-v", "error", "-y", *before.split(), "-i", source, *after.split(), path)
    return path


def _joined(path: Path, *parts: Path) -> Path:
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


def _ts(folder: Path, name: str, *, start=0.0, audio="-c:a aac", seconds=1.2, video=_VIDEO, late=0.0) -> Path:
    extra = f"-f mpegts {_RAW} -output_ts_offset {start}"
    return encode(folder / name, extra=extra, audio=audio, seconds=seconds, video=video, late=late)


def _paused(folder: Path, name: str, *, audio: str, pause: float, suffix="ts") -> Path:
    video = f"{_VIDEO} -vf select='lt(t,0.6)+gte(t,{0.6 + pause})' -vsync vfr"
    form = "-f mpegts" if suffix == "ts" else ""
    return encode(folder / f"{name}.{suffix}", seconds=pause + 1.2, video=video, audio=audio, extra=form)


def _edited(source: Path, path: Path, edits: list[tuple[float, float]], track: int) -> Path:
    """Write the edit list of an mp4 file anew: (length, place in the media) in seconds; a place of -1 is a pause."""
    data = bytearray(source.read_bytes())
    movie = struct.unpack(">I", data[(at := data.index(b"mvhd")) + 16 : at + 20])[0]
    place = -1
    for _ in range(track + 1):
        place = data.index(b"elst", place + 1)
    media = struct.unpack(">I", data[(at := data.index(b"mdhd", place)) + 16 : at + 20])[0]
    old = struct.unpack(">I", data[place - 4 : place])[0]
    table = b"".join(
        struct.pack(">IiHH", round(length * movie), -1 if at < 0 else round(at * media), 1, 0) for length, at in edits
    )
    box = struct.pack(">I4sII", 16 + len(table), b"elst", 0, len(edits)) + table
    grown = len(box) - old
    length = data.rindex(b"tkhd", 0, place) + 24
    data[length : length + 4] = struct.pack(">I", round(sum(seconds for seconds, _ in edits) * movie))
    for name in (b"moov", b"trak", b"edts"):
        at = data.rindex(name, 0, place) if name != b"moov" else data.index(name)
        data[at - 4 : at] = struct.pack(">I", struct.unpack(">I", data[at - 4 : at])[0] + grown)
    data[place - 4 : place - 4 + old] = box
    path.write_bytes(bytes(data))
    return path


def _trimmed(source: Path, path: Path) -> Path:
    """Hide the first 0.4 s of both tracks, as phones trim."""
    half = _edited(source, path.with_stem("half"), [(0.4, 0.4)], track=0)
    return _edited(half, path, [(0.4, 0.4)], track=1)


def _hls(folder: Path, name: str, *, lost: tuple[int, ...], form="", audio="-c:a aac") -> Path:
    target = folder / name
    target.mkdir()
    extra = f"-f hls -hls_time 0.4 -hls_list_size 0 {form} -hls_segment_filename {target}/s%d"
    encode(target / "list.m3u8", seconds=1.6, audio=audio, extra=f"{extra}{'.m4s' if 'fmp4' in form else '.ts'}")
    for number in lost:
        for file in target.glob(f"s{number}.*"):
            file.unlink()
    return target / "list.m3u8"


def _page(folder: Path, name: str, *, form="") -> Path:
    """A playlist whose server answers with a page instead of a file that it lost."""
    target = _hls(folder, name, lost=(), form=form)
    next(target.parent.glob("s2.*")).write_text("<html>404 Not Found</html>" * 30)
    return target


def _gap(folder: Path, name: str) -> Path:
    """A playlist that says itself that a file is missing."""
    target = _hls(folder, name, lost=(2,))
    target.write_text(target.read_text().replace("s2.ts", "#EXT-X-GAP\ns2.ts"))
    return target


def _cut(folder: Path, name: str, number: int, *, form="", audio="-c:a aac") -> Path:
    """A playlist of which one file lost its last frames, in whole packets."""
    target = _hls(folder, name, lost=(), form=form, audio=audio)
    file = next(target.parent.glob(f"s{number}.*"))
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * 0.75) // 188 * 188])
    return target


def _discontinuous(folder: Path, name: str, *, lost: tuple[int, ...] = ()) -> Path:
    """A playlist of recordings with clocks of their own."""
    (target := folder / name).mkdir()
    lines = ["#EXTM3U", "#EXT-X-VERSION:3", "#EXT-X-TARGETDURATION:1"]
    for number, start in enumerate((10, 500, 3, 90)):
        encode(target / f"s{number}.ts", seconds=0.4, extra=f"-f mpegts -output_ts_offset {start}")
        lines += [*(["#EXT-X-DISCONTINUITY"] if number else []), "#EXTINF:0.4,", f"s{number}.ts"]
    for number in lost:
        (target / f"s{number}.ts").unlink()
    (target / "list.m3u8").write_text("\n".join([*lines, "#EXT-X-ENDLIST", ""]))
    return target / "list.m3u8"


def _merge(folder: Path, name: str, *words: str, **made) -> Path:
    source = encode(folder / f"{name}-raw.mkv", **made)
    _run(str(MKVMERGE), "-q", "-o", folder / f"{name}.mkv", *words, source)
    return folder / f"{name}.mkv"


def _stamped(folder: Path, name: str, times: list[int], **made) -> Path:
    """A Matroska file whose frames have these times, in milliseconds."""
    (folder / f"{name}.txt").write_text("# timestamp format v2\n" + "\n".join(map(str, times)) + "\n")
    return _merge(folder, name, "--timestamps", f"0:{folder / name}.txt", **made)


def _appended(folder: Path) -> Path:
    parts = [encode(folder / f"part{number}.mkv", seconds=0.4 * number) for number in (1, 2)]
    _run(str(MKVMERGE), "-q", "-o", folder / "mkv-appended.mkv", parts[0], "+", parts[1])
    return folder / "mkv-appended.mkv"


MAKERS: dict[str, Callable[[Path], Path]] = {
    # transport streams: where the clock begins, wraps, pauses and jumps
    "ts-zero": lambda f: _ts(f, "ts-zero.ts"),
    "ts-40000": lambda f: _ts(f, "ts-40000.ts", start=40_000),
    "ts-40000-silent": lambda f: _ts(f, "ts-40000-silent.ts", start=40_000, audio=""),
    "ts-wrap-start": lambda f: _ts(f, "ts-wrap-start.ts", start=_WRAP - 0.3),
    "ts-wrap-middle": lambda f: _ts(f, "ts-wrap-middle.ts", start=_WRAP - 0.7),
    "ts-wrap-end": lambda f: _ts(f, "ts-wrap-end.ts", start=_WRAP - 1.15),
    "ts-wrap-silent": lambda f: _ts(f, "ts-wrap-silent.ts", start=_WRAP - 0.5, audio=""),
    "ts-wrap-bframes": lambda f: _ts(f, "ts-wrap-bframes.ts", start=_WRAP - 0.5, video=_B_FRAMES),
    "ts-wrap-mp2": lambda f: _ts(f, "ts-wrap-mp2.ts", start=_WRAP - 0.5, audio="-c:a mp2"),
    "ts-late-sound": lambda f: _ts(f, "ts-late-sound.ts", start=5, late=0.5),
    "ts-pause": lambda f: _paused(f, "ts-pause", audio="-c:a mp2", pause=12),
    "ts-pause-aac": lambda f: _paused(f, "ts-pause-aac", audio="-c:a aac", pause=11),
    "ts-pause-silent": lambda f: _paused(f, "ts-pause-silent", audio="", pause=12),
    "ts-short-pause": lambda f: _paused(f, "ts-short-pause", audio="-c:a mp2", pause=4),
    "ts-short-pause-silent": lambda f: _paused(f, "ts-short-pause-silent", audio="", pause=4),
    "ts-twice": lambda f: _joined(f / "ts-twice.ts", *2 * [_ts(f, "once.ts", start=3)]),
    "ts-back": lambda f: _joined(f / "ts-back.ts", _ts(f, "b1.ts", start=90), _ts(f, "b2.ts", start=2)),
    "ts-ahead": lambda f: _joined(f / "ts-ahead.ts", _ts(f, "h1.ts", start=2), _ts(f, "h2.ts", start=9000)),
    "ts-thrice-silent": lambda f: _joined(f / "ts-thrice-silent.ts", *3 * [_ts(f, "quiet.ts", start=7, audio="")]),
    "m2ts-40000": lambda f: encode(f / "m2ts-40000.m2ts", audio="-c:a ac3", extra="-output_ts_offset 40000"),
    "mpg-late": lambda f: encode(
        f / "mpg-late.mpg", video="-c:v mpeg2video -q:v 2", audio="-c:a mp2", extra="-output_ts_offset 700"
    ),
    # playlists
    "hls-whole": lambda f: _hls(f, "hls-whole", lost=()),
    "hls-middle": lambda f: _hls(f, "hls-middle", lost=(2,)),
    "hls-end": lambda f: _hls(f, "hls-end", lost=(3,)),
    "hls-two": lambda f: _hls(f, "hls-two", lost=(1, 2)),
    "hls-silent": lambda f: _hls(f, "hls-silent", lost=(1,), audio=""),
    "hls-bframes": lambda f: _hls(f, "hls-bframes", lost=(), form="-bf 3"),
    "hls-bframes-middle": lambda f: _hls(f, "hls-bframes-middle", lost=(2,), form="-bf 3"),
    "hls-fmp4-whole": lambda f: _hls(f, "hls-fmp4-whole", lost=(), form="-hls_segment_type fmp4"),
    "hls-fmp4": lambda f: _hls(f, "hls-fmp4", lost=(2,), form="-hls_segment_type fmp4"),
    "hls-page": lambda f: _page(f, "hls-page"),
    "hls-fmp4-page": lambda f: _page(f, "hls-fmp4-page", form="-hls_segment_type fmp4"),
    "hls-gap": lambda f: _gap(f, "hls-gap"),
    "hls-joined": lambda f: _discontinuous(f, "hls-joined"),
    "hls-joined-lost": lambda f: _discontinuous(f, "hls-joined-lost", lost=(1,)),
    # edit lists of mp4
    "mp4-hidden": lambda f: _copy(encode(f / "hidden.mp4"), f / "mp4-hidden.mp4", before="-ss 0.5"),
    "mov-hidden": lambda f: _copy(encode(f / "hidden.mov"), f / "mov-hidden.mov", before="-ss 0.7"),
    "mp4-hidden-end": lambda f: _edited(encode(f / "e.mp4"), f / "mp4-hidden-end.mp4", [(0.6, 0.0213334)], track=1),
    "mp4-video-cut": lambda f: _edited(encode(f / "v.mp4"), f / "mp4-video-cut.mp4", [(0.6, 0.2)], track=0),
    "mp4-two-edits": lambda f: _edited(encode(f / "w.mp4"), f / "mp4-two-edits.mp4", [(0.4, 0), (0.4, 0.8)], track=0),
    "mp4-edits-back": lambda f: _edited(encode(f / "b.mp4"), f / "mp4-edits-back.mp4", [(0.4, 0.8), (0.4, 0)], track=0),
    "mp4-trimmed": lambda f: _trimmed(encode(f / "t.mp4"), f / "mp4-trimmed.mp4"),
    "mp4-late-video": lambda f: _edited(encode(f / "l.mp4"), f / "mp4-late-video.mp4", [(0.4, -1), (1.2, 0)], track=0),
    "mp4-late-sound": lambda f: encode(f / "mp4-late-sound.mp4", late=0.4),
    "mp4-fragments-late": lambda f: encode(
        f / "mp4-fragments-late.mp4", late=0.3, extra="-movflags frag_keyframe+empty_moov+delay_moov"
    ),
    "mp4-bframes": lambda f: encode(f / "mp4-bframes.mp4", video=_B_FRAMES),
    "mp4-negative": lambda f: _copy(
        encode(f / "n.mkv", video=_B_FRAMES), f / "mp4-negative.mp4", after="-c copy -avoid_negative_ts disabled"
    ),
    # lengths that differ, rates that vary or lie
    "sound-longer": lambda f: encode(f / "sound-longer.mkv", sound=2.4),
    "sound-shorter": lambda f: encode(f / "sound-shorter.mp4", sound=0.4),
    "mkv-start": lambda f: _copy(encode(f / "s.mkv"), f / "mkv-start.mkv", after="-c copy -output_ts_offset 30"),
    "mkv-vfr": lambda f: _stamped(f, "mkv-vfr", [0, 40, 45, 160, 170, 400, 900, 905, 1000, 1180], seconds=0.4),
    "mkv-vfr-silent": lambda f: _stamped(
        f, "mkv-vfr-silent", [0, 1, 2, 300, 5000, 5040, 20000, 20040, 20080, 20120], seconds=0.4, audio=""
    ),
    "mkv-lying-rate": lambda f: _merge(f, "mkv-lying-rate", "--default-duration", "0:100fps"),
    "mkv-delayed-sound": lambda f: _merge(f, "mkv-delayed-sound", "--sync", "1:350"),
    "mkv-early-sound": lambda f: _merge(f, "mkv-early-sound", "--sync", "0:350"),
    "mkv-stretched": lambda f: _merge(f, "mkv-stretched", "--sync", "0:0,3/2", "--sync", "1:0,3/2"),
    "mkv-appended": _appended,
    "avi-vfr": lambda f: encode(
        f / "avi-vfr.avi", video=f"{_VIDEO} -vf select='not(eq(mod(n,4),1))' -vsync vfr", audio="-c:a libmp3lame"
    ),
    "flv-late": lambda f: encode(f / "flv-late.flv", late=0.3, audio="-c:a libmp3lame -ar 44100"),
    "ntsc-film": lambda f: encode(f / "ntsc-film.mp4", rate="24000/1001"),
    "slow": lambda f: encode(f / "slow.mp4", rate="2", seconds=3, audio="-c:a aac"),
    # sound that pauses
    "opus-pause": lambda f: encode(f / "opus-pause.mkv", audio=f"-c:a libopus {_SILENT}"),
    "aac-pause": lambda f: encode(f / "aac-pause.mp4", audio=f"-c:a aac {_SILENT}"),
    "mp2-pause": lambda f: encode(f / "mp2-pause.ts", audio=f"-c:a mp2 {_SILENT}"),
    # sound that containers refuse
    "wma": lambda f: encode(f / "wma.wmv", video="-c:v wmv2 -q:v 2", audio="-c:a wmav2"),
    "wma1": lambda f: encode(f / "wma1.asf", video="-c:v wmv2 -q:v 2", audio="-c:a wmav1"),
}
NEEDS_MKVMERGE = {name for name in MAKERS if name.startswith("mkv-") and name != "mkv-start"}


def make_timed(name: str, folder: Path) -> Path:
    """Make a source in a folder of its own."""
    place = folder / name
    place.mkdir()
    return MAKERS[name](place)


CUT: dict[str, Callable[[Path], Path]] = {
    "hls-cut": lambda f: _cut(f, "hls-cut", 1),
    "hls-cut-silent": lambda f: _cut(f, "hls-cut-silent", 2, audio=""),
    "hls-cut-end": lambda f: _cut(f, "hls-cut-end", 3),
}
"""Playlists of four files, one of which is cut short."""
