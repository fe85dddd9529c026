"""Wheel and sdist, built from a copy and tried in clean environments outside the repository, on every Python here."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import urllib.request
import zipfile
from pathlib import Path

import av
import pytest

import libranet
from clips import Clip, other_packets, write_clip

ROOT = Path(__file__).parents[1]
VERSION = libranet.__version__
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
GIGABYTE = 1 << 30


def run(*command: object, folder: Path, **settings: str) -> str:
    """Run a program in a folder far from the repository, without this environment's settings, but with some."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment |= {"OMP_NUM_THREADS": "1"} | settings
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def make_environment(python: Path | str, folder: Path) -> Path:
    """Make a virtual environment without pip and return its folder of programs."""
    run(python, "-m", "venv", "--without-pip", folder, folder=folder.parent)
    return folder / "bin"


def install(programs: Path, *requirements: object) -> None:
    """Install into an environment with the pip of this one."""
    words = [
        "--python",
        programs / "python",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        *requirements,
    ]
    run(sys.executable, "-m", "pip", *words, folder=programs.parent)


def other_pythons() -> dict[str, Path]:
    """Interpreters of the versions that the package supports, by version; the newest patch of each."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[str, Path] = {}
    for minor in (11, 12, 13, 14):
        versions = sorted(root.glob(f"3.{minor}.*/bin/python"), key=lambda path: int(path.parts[-3].split(".")[2]))
        program = versions[-1] if versions else shutil.which(f"python3.{minor}")
        if program:
            found[f"3.{minor}"] = Path(program)
    return found


OTHERS = {version: path for version, path in other_pythons().items() if version != THIS_PYTHON}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder with wheel and sdist."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[dev]'")
    copy = copy_sources(tmp_path_factory.mktemp("copy"))
    run(sys.executable, "-m", "hatchling", "build", "-d", copy / "dist", folder=copy)
    return copy / "dist"


def copy_sources(folder: Path) -> Path:
    """What the package is built from, in a folder of its own."""
    for name in ("src", "recipes"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in (
        *("pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "CITATION.cff"),
        *("LICENSE", "LICENSE-WEIGHTS.md"),
    ):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    (path,) = built.glob("*.whl")
    return path


def test_the_wheel_holds_what_a_user_needs_and_no_more(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"libranet-{VERSION}.dist-info/METADATA").decode()
    licences = {f"libranet-{VERSION}.dist-info/licenses/{name}" for name in ("LICENSE", "LICENSE-WEIGHTS.md")}
    assert licences < names
    assert {"libranet/py.typed", "libranet/__main__.py", "libranet/weights/libranet-base.safetensors"} < names
    sources = {f"libranet/{file.relative_to(ROOT / 'src' / 'libranet')}" for file in (ROOT / "src").rglob("*.py")}
    assert sources < names
    assert [name for name in names if name.startswith("libranet/kernels/native/libranet_kernels.")]
    assert "py3-none-" in wheel.name
    assert "any" not in wheel.name
    assert {name.split("/")[0] for name in names} == {"libranet", f"libranet-{VERSION}.dist-info"}
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata


def test_the_sdist_holds_the_sources_and_no_tests(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.removeprefix(f"libranet-{VERSION}/") for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "LICENSE-WEIGHTS.md", "CITATION.cff"} < names
    assert {"src/libranet/py.typed", "src/libranet/weights/libranet-base.safetensors", "recipes/smoke.toml"} < names
    assert {"hatch_build.py", "src/libranet/kernels/conv3x3/panels.c", "src/libranet/kernels/native/vectors.h"} < names
    assert not [name for name in names if name.endswith((".so", ".dylib", ".dll"))]
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]


def dehaze_a_clip(programs: Path, folder: Path, backend: str) -> None:
    """Dehaze a clip with a sound track, by the backend that is taken here; the sound is the same packets.

    No program is within reach, so none can compile anything.
    """
    source = write_clip(folder / "in.mp4", Clip(frames=6, width=320, height=256, audio=("aac",)))
    words = ("dehaze", source, "-o", "out.mp4", "--device", "cpu", "--json")
    report = run(programs / "libranet", *words, folder=folder, PATH=str(programs))
    assert '"weights_name": "libranet-base"' in report
    assert f'"backend": "{backend}' in report
    with av.open(str(folder / "out.mp4")) as container:
        assert sorted(stream.type for stream in container.streams) == ["audio", "video"]
        assert sum(1 for _ in container.decode(video=0)) == 6
    before, after = other_packets(source), other_packets(folder / "out.mp4")
    assert [data for _, data in after[1]] == [data for _, data in before[1]]


def check_commands(programs: Path, folder: Path) -> None:
    assert run(programs / "libranet", "--version", folder=folder).strip() == VERSION
    assert "dehaze" in run(programs / "python", "-m", "libranet", "--help", folder=folder)
    place = run(programs / "python", "-c", "import libranet; print(libranet.__file__)", folder=folder)
    assert Path(place.strip()).is_relative_to(programs.parent)


def borrow_requirements(folder: Path, *wanted: object) -> Path:
    """An environment with this one's requirements, so that tests take seconds, and with the package installed."""
    programs = make_environment(sys.executable, folder)
    if wanted:
        install(programs, "--no-deps", "--no-index", *wanted)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "requirements.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return programs


def test_the_wheel_works_in_an_environment_of_its_own(wheel, tmp_path):
    programs = borrow_requirements(tmp_path / "environment", wheel)
    check_commands(programs, tmp_path)
    dehaze_a_clip(programs, tmp_path, "cpu-")


def test_without_a_compiler_the_wheel_runs_the_plain_network(tmp_path):
    pytest.importorskip("hatchling")
    copy = copy_sources(tmp_path / "copy")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", copy / "dist", folder=copy, CC="no-compiler")
    (wheel,) = (copy / "dist").glob("*-py3-none-any.whl")
    programs = borrow_requirements(tmp_path / "environment", wheel)
    assert "built without a C compiler" in run(programs / "libranet", "doctor", "--json", folder=tmp_path)
    dehaze_a_clip(programs, tmp_path, "plain")


def test_an_editable_install_has_the_kernels(tmp_path):
    copy = copy_sources(tmp_path / "copy")
    programs = borrow_requirements(tmp_path / "environment")
    try:
        install(programs, "--no-deps", "-e", copy)
    except AssertionError as error:
        if "No matching distribution" not in str(error):
            raise
        pytest.skip("no package index within reach, and hatchling needs a package from there for editable installs")
    code = "from libranet.kernels.native import library; print(library.__file__, library.levels())"
    found = run(programs / "python", "-c", code, folder=tmp_path)
    assert found.startswith(str(copy))
    assert "portable" in found


def check_first_hour(programs: Path, folder: Path) -> None:
    """What the README shows works without another package: the page, the static site, ONNX."""
    words = [str(programs / "libranet"), "serve", "--port", "0", "--data", "served", "--device", "cpu"]
    server = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+/", line)))
        threading.Thread(target=server.stderr.read, daemon=True).start()
        with urllib.request.urlopen(f"{address}health") as answer:
            assert answer.status == 200
    finally:
        server.terminate()
        server.wait(20)
    run(programs / "libranet", "export", "net.onnx", "--model", "libranet-small", folder=folder)
    run(programs / "libranet", "web", "-o", "site", "--model", "libranet-small", folder=folder)
    assert (folder / "site" / "index.html").is_file()


PYAV_SMOKE = """
import importlib, pkgutil, sys
import av
import libranet.video
from libranet.video.pyav import open_input, side_data

for module in pkgutil.iter_modules(libranet.video.__path__, "libranet.video."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        assert error.name in ("torch", "cv2"), error
with open_input(sys.argv[1]) as container:
    frames = [side_data(frame, "DISPLAYMATRIX") for frame in container.decode(video=0)]
with open_input(sys.argv[1]) as container:
    sound = sum(packet.size > 0 for packet in container.demux(audio=0))
print(av.__version__, len(frames), sound > 0)
"""


@pytest.mark.skipif(not OTHERS, reason="no other Python here: pyenv install 3.13")
def test_another_python_runs_what_needs_no_torch(wheel, tmp_path):
    """The newest other Python compiles every file, shows help and version, and reads video with its PyAV."""
    python = OTHERS[max(OTHERS, key=lambda version: int(version.split(".")[1]))]
    programs = make_environment(python, tmp_path / "environment")
    install(programs, "--no-deps", "--no-index", wheel)
    (ours,) = (tmp_path / "environment").glob("lib/python*/site-packages/libranet")
    run(programs / "python", "-W", "error", "-m", "compileall", "-q", "-f", ours, folder=tmp_path)
    try:
        install(programs, "typer", "rich", "av>=18.1,<20", "numpy")
    except AssertionError as error:
        pytest.skip(f"no package index within reach: {str(error)[-200:]}")
    check_commands(programs, tmp_path)
    source = write_clip(tmp_path / "in.mp4", Clip(frames=4, audio=("aac",)))
    version, frames, sound = run(programs / "python", "-c", PYAV_SMOKE, source, folder=tmp_path).split()
    assert (frames, sound) == ("4", "True")
    assert version.split(".")[0] in ("18", "19")


def find_links() -> list[str]:
    """Folders of wheels that this machine's pip looks into: PyTorch without CUDA may be there."""
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    return re.findall(r"find-links='([^']+)'", told.stdout)[:1]


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["uvx", "pipx"])
def test_one_line_runs_the_package_from_a_local_index(tool, wheel, tmp_path):
    """`uvx libranet ...` and `pipx install libranet`, with a folder of wheels in the place of the index."""
    program = shutil.which(tool, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        pytest.skip(f"no {tool} here: pip install {'uv' if tool == 'uvx' else tool}")
    source = write_clip(tmp_path / "in.mp4", Clip(frames=3))
    links = [word for folder in (wheel.parent, *find_links()) for word in ("--find-links", str(folder))]
    dehaze = ("dehaze", source, "--model", "libranet-small", "--device", "cpu")
    if tool == "uvx":
        run(program, *links, "libranet", *dehaze, folder=tmp_path)
    else:
        places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
        words = [program, "install", f"--pip-args={' '.join(links)}", "libranet"]
        subprocess.run(words, env=os.environ | places, cwd=tmp_path, check=True, capture_output=True)
        run(tmp_path / "bin" / "libranet", *dehaze, folder=tmp_path)
    assert (tmp_path / "in-clear.mp4").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_a_full_install_on_every_python(version, wheel, tmp_path):
    """A real installation from the package index: several GB where PyTorch comes with CUDA."""
    pythons = other_pythons()
    if version not in pythons:
        pytest.skip(f"no Python {version} here: pyenv install {version}")
    if shutil.disk_usage(tmp_path).free < 15 * GIGABYTE:
        pytest.skip("less than 15 GB of free disk")
    environment = tmp_path / "environment"
    try:
        programs = make_environment(pythons[version], environment)
        install(programs, "--no-cache-dir", wheel)
        check_commands(programs, tmp_path)
        dehaze_a_clip(programs, tmp_path, "cpu-")
        check_first_hour(programs, tmp_path)
        pyav = run(programs / "python", "-c", "import av; print(av.__version__)", folder=tmp_path).strip()
        size = sum(file.stat().st_size for file in environment.rglob("*") if file.is_file()) / 1e9
        print(f"Python {version}: PyAV {pyav}, {size:.1f} GB")
    finally:
        shutil.rmtree(environment, ignore_errors=True)
