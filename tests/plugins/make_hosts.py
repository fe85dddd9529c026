"""Prepare the host programs that tests/plugins asks: `make hosts`. Each lies in a folder of .hosts.

What cannot be had here is named and left out: its tests are skipped.
"""

import hashlib
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOSTS = ROOT / ".hosts"
DEBIAN = "http://deb.debian.org/debian"
NEEDED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
CONFIGURE = [
    "--disable-everything",
    *("--disable-" + part for part in ("doc", "x86asm", "network", "autodetect", "ffplay", "ffprobe")),
    "--enable-libonnxruntime",
    "--enable-filter=dnn_processing,scale,format",
    *(f"--enable-{part}=rawvideo" for part in ("demuxer", "muxer", "decoder", "encoder")),
    "--enable-protocol=file",
]


def make_environment(python: str | Path, folder: Path, *packages: str, system: bool = False) -> None:
    """A virtual environment with what our package needs, which is found in the sources, and with more packages."""
    run(python, "-m", "venv", "--without-pip", *(["--system-site-packages"] if system else []), folder)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "-q", "--no-compile"]
    run(*pip, *NEEDED, *packages)


def vapoursynth(folder: Path) -> None:
    """VapourSynth takes Python 3.12 and newer, with a shared library, which vspipe loads."""
    found = [shutil.which(f"python3.{minor}") or "" for minor in (14, 13, 12)]
    found += [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.1[2-4]*/bin/python"))]
    make_environment(next(filter(works, found)), folder, "vapoursynth")


def works(python: str) -> bool:
    """Whether this is a Python of which an environment can be made: pyenv's names on the path may be empty."""
    test = "import sys, sysconfig, venv; sys.exit(not sysconfig.get_config_var('Py_ENABLE_SHARED'))"
    return bool(python) and subprocess.run([python, "-c", test], capture_output=True, check=False).returncode == 0


def gstreamer(folder: Path) -> None:
    """Debian's GStreamer belongs to Debian's Python."""
    run("/usr/bin/python3", "-c", "import gi; gi.require_version('Gst', '1.0')")
    make_environment("/usr/bin/python3", folder, system=True)


def apps(folder: Path) -> None:
    """Gradio, Jupyter's client, and the tool of ComfyUI's registry."""
    packages = ("gradio", "gradio_client", "nbclient", "nbformat", "ipykernel", "comfy-cli")
    make_environment(sys.executable, folder, *packages)


def ffmpeg(folder: Path) -> None:
    """FFmpeg 9 with its ONNX backend, from Debian's sources: no distribution's build had it in November 2026."""
    import onnxruntime

    library = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
    archive, headers = folder / "ffmpeg.tar", folder / "headers"
    archive.write_bytes(
        fetch("source/Sources", "ffmpeg", r"^ (?P<hash>[0-9a-f]{64}) \d+ (?P<file>\S+\.orig\.tar\.\w+)$")
    )
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "sources", filter="data")
    sources = next((folder / "sources").iterdir())
    package = folder / "headers.deb"
    package.write_bytes(fetch("binary-amd64/Packages", "libonnxruntime-dev", r"^SHA256: (?P<hash>\S+)$"))
    run("dpkg-deb", "-x", package, headers)
    (folder / "lib").mkdir()
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (folder / "lib" / name).symlink_to(library)
    include = next(headers.rglob("onnxruntime_c_api.h")).parent
    settings = [f"--extra-cflags=-I{include} -O1", f"--extra-ldflags=-L{folder}/lib -Wl,-rpath,{folder}/lib"]
    run("./configure", *CONFIGURE, *settings, folder=sources)
    run("make", "-j2", "ffmpeg", folder=sources)
    (folder / "bin").mkdir()
    shutil.copy(sources / "ffmpeg", folder / "bin" / "ffmpeg")
    for made in (archive, package):
        made.unlink()
    for made in (folder / "sources", headers):
        shutil.rmtree(made)


def fetch(index: str, package: str, pattern: str) -> bytes:
    """Download the newest file of a package from Debian's unstable suite, and check its hash."""
    with urllib.request.urlopen(f"{DEBIAN}/dists/sid/main/{index}.xz") as answer:
        entries = lzma.decompress(answer.read()).decode().split("\n\n")
    entry = [text for text in entries if text.startswith(f"Package: {package}\n")][-1]  # older ones come first
    found = re.search(pattern, entry, re.MULTILINE)
    if "file" in found.groupdict():
        place = re.search(r"^Directory: (.+)$", entry, re.MULTILINE)[1] + "/" + found["file"]
    else:
        place = re.search(r"^Filename: (.+)$", entry, re.MULTILINE)[1]
    with urllib.request.urlopen(f"{DEBIAN}/{place}") as answer:
        data = answer.read()
    assert hashlib.sha256(data).hexdigest() == found["hash"]
    return data


def run(*words: object, folder: Path = ROOT) -> None:
    """Run a program; its last line says why it failed."""
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().rpartition("\n")[2])


def main() -> None:
    """Make what is missing."""
    makers: tuple[Callable[[Path], None], ...] = (apps, gstreamer, vapoursynth, ffmpeg)
    for make in makers:
        folder = HOSTS / make.__name__
        if folder.exists():
            continue
        folder.mkdir(parents=True)
        try:
            make(folder)
        except Exception as error:  # no network, no such Python, no compiler: the tests are skipped
            shutil.rmtree(folder)
            print(f"no {make.__name__} here: the tests that need it will be skipped ({error or type(error).__name__})")


if __name__ == "__main__":
    main()
