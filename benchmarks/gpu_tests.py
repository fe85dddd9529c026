"""All tests that need a GPU, each file in a process of its own, side by side: compiling kernels is most of their time.

    PYTHONPATH=src python3 benchmarks/gpu_tests.py

Exits with 1 if a test failed or no GPU is there. Other files are not even collected: they may import what a machine
with a GPU does not have.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]


def find_files() -> list[Path]:
    """Test files with tests that need a GPU: those of kernels, and those with the mark."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [file for file in files if file.stem.endswith("_triton") or "@pytest.mark.gpu" in file.read_text()]


def run_file(file: Path, limit: float) -> tuple[Path, int, str]:
    """Run the GPU tests of one file; returns its exit code and output."""
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "--require-gpu", "-q", "-p", "no:cacheprovider", str(file)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        return file, 1, f"no end after {limit:.0f} s\n{output.decode(errors='replace')}"
    return file, 0 if done.returncode == 5 else done.returncode, done.stdout + done.stderr  # 5: no such test in it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one file")
    parser.add_argument("--processes", type=int, default=min(12, os.cpu_count() or 1))
    options = parser.parse_args()
    files = find_files()
    begin, failed, counts = time.perf_counter(), [], {"passed": 0, "failed": 0, "error": 0}
    with ThreadPoolExecutor(options.processes) as pool:
        for file, code, output in pool.map(lambda one: run_file(one, options.limit), files):
            summary = output.strip().splitlines()[-1] if output.strip() else "nothing"
            for kind in counts:
                counts[kind] += sum(map(int, re.findall(rf"(\d+) {kind}", summary)))
            print(f"{file.relative_to(ROOT)}: {summary}", flush=True)
            if code:
                failed.append((file, output))
    for file, output in failed:
        print(f"\n===== {file.relative_to(ROOT)}\n{output[-3500:]}", flush=True)
    print(f"\nGPU tests: {counts}, {len(failed)} files failed, {time.perf_counter() - begin:.0f} s", flush=True)
    sys.exit(1 if failed or not counts["passed"] else 0)


if __name__ == "__main__":
    main()
