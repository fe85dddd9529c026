"""The C library of the CPU kernels: built from these sources, called from several threads, and after a fork."""

import ctypes
import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from libranet.errors import MissingDependencyError
from libranet.kernels.conv3x3 import panels
from libranet.kernels.native import library

ROOT = Path(__file__).parents[2]


def load_build():
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.kernels
def test_the_library_was_built_from_these_sources():
    sources = library.open_library().libranet_sources
    sources.restype = ctypes.c_char_p
    assert sources().decode() == load_build().digest_sources(), "the kernels changed: run `python hatch_build.py`"


def test_a_machine_with_a_compiler_has_the_library():
    if load_build().find_compiler() is None:
        pytest.skip("no C compiler here")
    assert library.levels(), "run `python hatch_build.py`"
    assert library.levels()[-1] == "portable"


def make_work(seed: int) -> tuple[np.ndarray, panels.Weights]:
    generator = torch.Generator().manual_seed(seed)
    x = panels.make_map(37, 53, 16)
    x[1:38, 1:54] = torch.randn(37, 53, 16, generator=generator).numpy()
    return x, panels.pack_winograd(torch.randn(16, 16, 3, 3, generator=generator))


def convolve(work: tuple[np.ndarray, panels.Weights], threads: int) -> np.ndarray:
    out, before = panels.make_map(37, 53, 16), torch.get_num_threads()
    torch.set_num_threads(threads)
    panels.convolve(*work, out, (37, 53))
    torch.set_num_threads(before)
    return out


@pytest.mark.kernels
def test_many_threads_and_many_callers_give_the_same_bits():
    works = [make_work(seed) for seed in range(4)]
    alone = [convolve(work, 1) for work in works]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            together = list(pool.map(lambda work: convolve(work, 3), works))
            assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.kernels
def test_a_child_of_a_fork_has_threads_of_its_own():
    code = f"""if True:
    import os, sys
    sys.path[:0] = {[str(Path(__file__).parent)]!r}
    from test_native import convolve, make_work
    work = make_work(0)
    expected = convolve(work, 3)
    child = os.fork()
    if child == 0:
        os._exit(0 if (convolve(work, 3) == expected).all() else 7)
    assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_torch_has_one_thread_while_kernels_have_its_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with library.torch_threads(), library.torch_threads():
            assert (torch.get_num_threads(), library.thread_count()) == (1, 2)
        assert (torch.get_num_threads(), library.thread_count()) == (2, 2)
    finally:
        torch.set_num_threads(before)


def test_without_the_library_the_reason_and_the_remedy_are_one_sentence(monkeypatch):
    monkeypatch.setattr(library, "open_library", lambda: f"no kernels: {library.REMEDY}")
    library._function.cache_clear()
    assert "C compiler" in library.why_no_library()
    with pytest.raises(MissingDependencyError, match="C compiler"):
        library.call("convolve")
    library._function.cache_clear()
