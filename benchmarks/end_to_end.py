"""One command, one table: what a user gets beside what the kernels and the codec can, at 3840x2160.

    PYTHONPATH=src python3 benchmarks/end_to_end.py --out results/ --budget 290

Every row is measured in this run: the product's number, what it is compared with, and their ratio. A section that
fails, crashes or takes too long costs only its own rows; the files in the folder are written after every section. The
tests that need a GPU (`gpu_tests.py`) run beside the sections that are not timed.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from end_to_end_sections.api import api, other_gpus
from end_to_end_sections.files import codec, files
from end_to_end_sections.kernels import accuracy, kernels
from end_to_end_sections.processes import first_frame, resume
from end_to_end_sections.table import Setting, Table, wait
from libranet.network import LiBrANet
from libranet.runtime import load_network

SECTIONS: dict[str, tuple[Callable[[Table, LiBrANet, Setting], None], float]] = {
    "first_frame": (first_frame, 60),
    "kernels": (kernels, 75),
    "api": (api, 45),
    "files": (files, 150),
    "codec": (codec, 60),
    "accuracy": (accuracy, 60),
    "resume": (resume, 90),
    "other_gpus": (other_gpus, 150),
}
"""Every section with its limit in seconds, the most important first."""
UNTIMED = ("accuracy", "resume")
"""Sections that the tests may run beside."""
TESTS = "tests"
AFTER_CUDA_ERROR = 3
"""Exit code of a process whose CUDA context is lost: the rest needs a new one."""


def run_sections(names: list[str], setting: Setting, out: Path) -> None:
    """Run sections in this process. Each leaves its rows in the folder."""
    table, network = Table.load(out), load_network(device=setting.device)
    assert isinstance(network, LiBrANet)
    for name in names:
        (setting.folder / "section").write_text(name)
        begin, failed = time.perf_counter(), False
        try:
            SECTIONS[name][0](table, network, setting)
        except Exception as error:
            print(traceback.format_exc(), flush=True)
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            table.add(f"{name} failed: {reason[:100]}", None)
            failed = not _gpu_answers()
        table.facts[f"seconds of {name}"] = seconds = round(time.perf_counter() - begin, 1)
        print(f"[{name}: {seconds} s]", flush=True)
        table.save(out)
        if failed:
            os._exit(AFTER_CUDA_ERROR)
        torch.cuda.empty_cache()


def _gpu_answers() -> bool:
    """Whether this process can still use its GPU. After an error in a kernel it cannot."""
    try:
        wait()
    except RuntimeError:
        return False
    return True


class Supervisor:
    """Runs sections in processes and starts a new one where a section crashes or hangs."""

    def __init__(self, out: Path, work: Path, *, frames: int, budget: float) -> None:
        self.out, self.work, self.frames = out, work, frames
        self.end = time.monotonic() + budget

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def run(self, names: list[str]) -> None:
        """Run sections one after the other, as far as the time goes."""
        while names and self.left > 5:
            (self.work / "section").unlink(missing_ok=True)
            process = subprocess.Popen(
                [sys.executable, __file__, "--out", self.out, "--work", self.work, "--frames", str(self.frames),
                 "--only", *names],
                start_new_session=True,
            )  # fmt: skip
            name, how = self._watch(process, names[0])
            names = names[names.index(name) + 1 :]
            if how:
                self.note(f"{name} {how}")
        for name in names:
            self.note(f"{name}: no time left")

    def note(self, text: str, passed: float | None = None, *, unit: str = "") -> None:
        """Add a row to the table."""
        table = Table.load(self.out)
        table.add(text, passed, unit=unit)
        table.save(self.out)

    def _watch(self, process: subprocess.Popen[bytes], current: str) -> tuple[str, str]:
        """Wait for a process. Return its last section, and how that ended where it did not end well."""
        begin = time.monotonic()
        while process.poll() is None:
            time.sleep(0.1)
            now = self._section() or current
            if now != current:
                current, begin = now, time.monotonic()
            if time.monotonic() - begin > SECTIONS[current][1] or self.left < 0:
                _end(process)
                return current, f"stopped after {time.monotonic() - begin:.0f} s"
        code = process.returncode
        return current, "" if code in (0, AFTER_CUDA_ERROR) else f"crashed with exit code {code}"

    def _section(self) -> str:
        file = self.work / "section"
        return file.read_text() if file.is_file() else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def start_tests(out: Path) -> subprocess.Popen[bytes]:
    """Begin all tests that need a GPU."""
    script = str(Path(__file__).with_name("gpu_tests.py"))
    with (out / "gpu_tests.txt").open("wb") as log:
        command = [sys.executable, "-u", script, "--limit", "150"]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def finish_tests(tests: subprocess.Popen[bytes], supervisor: Supervisor) -> None:
    """Wait for the tests and note their last line."""
    try:
        code = str(tests.wait(max(1.0, supervisor.left - 5)))
    except subprocess.TimeoutExpired:
        _end(tests)
        code = "none: no time left"
    lines = (supervisor.out / "gpu_tests.txt").read_text(errors="replace").strip().splitlines()
    last = lines[-1] if lines else "GPU tests: nothing"
    supervisor.note(f"{last}, exit code {code}", float(code == "0"), unit="bool")
    print("\n".join(lines[-60:]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the numbers")
    parser.add_argument("--frames", type=int, default=600, help="frames of the longest file run")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds for everything")
    parser.add_argument("--only", nargs="*", choices=[*SECTIONS, TESTS], default=[*SECTIONS, TESTS])
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: this table is about GPUs; benchmarks/video.py measures a CPU")
    options.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in SECTIONS if name in options.only]
    if options.work is not None:
        run_sections(names, Setting(options.work, long=options.frames), options.out)
        return
    with tempfile.TemporaryDirectory() as work:
        supervisor = Supervisor(options.out, Path(work), frames=options.frames, budget=options.budget)
        supervisor.run([name for name in names if name not in (*UNTIMED, "other_gpus")])
        tests = start_tests(options.out) if TESTS in options.only else None
        supervisor.run([name for name in names if name in UNTIMED])
        if tests is not None:
            finish_tests(tests, supervisor)
        if "other_gpus" in names:
            supervisor.run(["other_gpus"])
    print(Table.load(options.out).text(), flush=True)


if __name__ == "__main__":
    main()
