"""Builds the CPU kernels, a C library, into the package: `pip install .`, `pip install -e .`, `python hatch_build.py`.

Every kernel file is compiled once for each level of instructions (`libranet.kernels.native`); the library takes no part
of Python, so the wheel is for every Python of one platform. Without a C compiler the wheel is pure Python, and the
network runs by torch alone; `libranet doctor` says so.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parent / "src" / "libranet" / "kernels"
OPERATIONS = (
    "conv3x3/panels.c",
    "norm_mix/panels.c",
    "samples/panels.c",
    "color_field/field.c",
    "fine_contrast/planes.c",
    "quiet_change/planes.c",
)
SHARED = ("native/threads.c", "native/levels.c")
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math", "-Wall")
_WIDE = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512")
LEVELS: dict[str, tuple[str, ...]] = {"portable": ()}
if platform.machine().lower() in ("x86_64", "amd64"):
    LEVELS |= {"avx2": ("-mavx2", "-mfma"), "avx512": _WIDE, "avx512bf16": (*_WIDE, "-mavx512bf16")}


def find_compiler() -> str | None:
    """The C compiler that CC names, or the first one here."""
    names = [os.environ["CC"]] if "CC" in os.environ else ["cc", "gcc", "clang"]
    return next(filter(None, map(shutil.which, names)), None)


def digest_sources() -> str:
    """A hash of everything that the library is built from."""
    files = sorted(path for path in KERNELS.rglob("*") if path.suffix in (".c", ".h"))
    digest = hashlib.sha256(repr((FLAGS, LEVELS)).encode())
    for path in files:
        digest.update(path.relative_to(KERNELS).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def build_library() -> Path:
    """Compile the library into the package.

    Raises:
        OSError: There is no C compiler, or it cannot compile the kernels.
    """
    compiler = find_compiler()
    if compiler is None:
        raise OSError("no C compiler (cc, gcc or clang) was found")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        work = Path(folder)
        jobs = {
            level: [pool.submit(_compile, compiler, source, work, level, flags) for source in OPERATIONS]
            for level, flags in LEVELS.items()
        }
        shared = [pool.submit(_compile, compiler, source, work, "shared", ()).result() for source in SHARED]
        objects = [*shared, *(job.result() for job in jobs["portable"])]
        for level in set(jobs) - {"portable"}:
            try:  # an older compiler may not know the newest instructions
                objects += [job.result() for job in jobs[level]]
            except OSError as error:
                print(f"kernels for {level} are left out: {error}", file=sys.stderr)
        target = KERNELS / "native" / f"libranet_kernels{sysconfig.get_config_var('SHLIB_SUFFIX') or '.dll'}"
        built = work / target.name
        _run([compiler, "-shared", "-O3", "-o", str(built), *map(str, objects), "-lpthread"])
        # A new file, not new content: a process may have the old one open.
        beside = target.with_suffix(".new")
        shutil.copyfile(built, beside)
        os.replace(beside, target)
    return target


def _compile(compiler: str, source: str, work: Path, level: str, flags: tuple[str, ...]) -> Path:
    target = work / f"{source.replace('/', '-')}-{level}.o"
    names = (f"-DLEVEL={level}", f'-DSOURCES="{digest_sources()}"')
    _run([compiler, *FLAGS, *flags, *names, "-c", str(KERNELS / source), "-o", str(target)])
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]} failed: {done.stderr.strip()[-500:]}")


if __name__ == "__main__":
    print(build_library())
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class CustomBuildHook(BuildHookInterface):
        """Runs before a wheel is packed, for editable installs, too."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if self.target_name != "wheel":
                return
            try:
                library = build_library()
            except OSError as error:
                self.app.display_warning(f"no CPU kernels in this build, the network runs by torch alone: {error}")
                return
            build_data["pure_python"] = False
            build_data["artifacts"].append(library.relative_to(self.root).as_posix())
            tag = next(iter(self._platforms()))
            build_data["tag"] = f"py3-none-{tag}"

        @staticmethod
        def _platforms() -> Any:
            from packaging.tags import platform_tags

            # As pip names this machine: a tag of manylinux is given by auditwheel, which looks into the library.
            return (name for name in platform_tags() if "manylinux" not in name and "musllinux" not in name)
