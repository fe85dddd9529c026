"""The examples in C++ and for VapourSynth as functions: frames in, restored frames out."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples" / "runtimes"


def compile_example(name: str, folder: Path) -> Path:
    """Compile an example with the header beside this test, and link it to the library of the Python package."""
    import onnxruntime

    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    libraries = sorted((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
    if not libraries:
        pytest.skip("this build of onnxruntime has no library of its own")
    program = folder / "dehaze"
    command = ["g++", "-std=c++17", "-Wall", "-Werror", str(EXAMPLES / name)]
    command += ["-I", str(Path(__file__).with_name("cpp")), str(libraries[0]), "-o", str(program)]
    subprocess.run([*command, f"-Wl,-rpath,{folder}"], check=True, timeout=120)
    (folder / "libonnxruntime.so.1").symlink_to(libraries[0])  # the name that programs ask for
    return program


def run_program(command: list[str], clip: torch.Tensor) -> torch.Tensor:  # [n, 3, h, w], twice
    done = subprocess.run(command, input=clip.numpy().tobytes(), capture_output=True, check=True, timeout=120)
    return torch.from_numpy(np.frombuffer(done.stdout, np.float32).reshape(clip.shape).copy())


def run_vapoursynth(python: str, network: Path, clip: torch.Tensor) -> torch.Tensor:  # [n, 3, h, w], twice
    hazy, clear = network.with_name("hazy.npy"), network.with_name("clear.npy")
    np.save(hazy, clip.numpy())
    script = [str(Path(__file__).with_name("run_vapoursynth.py")), str(EXAMPLES / "vapoursynth_clip.py")]
    subprocess.run([python, *script, str(network), str(hazy), str(clear)], check=True, timeout=300)
    return torch.from_numpy(np.load(clear))
