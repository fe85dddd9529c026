"""Compiled CPU kernels on disk: used while their sources are the same; and what they compute for other CPUs."""

import importlib.util
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba")

from numba.core import event
from numba.core.codegen import get_host_cpu_features

from libranet.kernels import compiled

KERNEL = """
from libranet.kernels.compiled import compiled

@compiled()
def double(x):
    return 2 * x
"""


def load_kernel(folder: Path, name: str = "kernel") -> Any:
    """Import the module anew, as another process would, and call its function."""
    path = folder / "kernel.py"
    path.write_text(KERNEL)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.double(21) == 42
    return module.double


def test_code_on_disk_counts_while_all_sources_are_the_same(tmp_path, monkeypatch):
    assert not load_kernel(tmp_path).stats.cache_hits
    assert load_kernel(tmp_path).stats.cache_hits
    monkeypatch.setattr(compiled, "digest_sources", lambda folder: "a change in another file")
    assert not load_kernel(tmp_path).stats.cache_hits
    assert load_kernel(tmp_path).stats.cache_hits


def test_without_a_folder_to_write_to_it_is_compiled_all_the_same(tmp_path, monkeypatch):
    from numba.core.caching import CacheImpl

    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    assert not load_kernel(tmp_path).stats.cache_hits


def test_the_user_is_told_once_before_our_kernels_are_compiled(tmp_path, caplog, monkeypatch):
    caplog.set_level("INFO", "libranet")
    monkeypatch.setattr(event, "_registered", defaultdict(list))  # other tests' networks listen, too
    listener = compiled._Announcement()
    with event.install_listener("numba:compile", listener):
        load_kernel(tmp_path, "somebody_elses")
        assert not caplog.messages
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            load_kernel(tmp_path / name, f"libranet.kernels.{name}")
    assert caplog.messages == ["compiling the kernels for this CPU and kind of frame, once: up to half a minute"]
    with event.install_listener("numba:compile", compiled._Announcement()):
        load_kernel(tmp_path / "first", "libranet.kernels.first")  # from disk: there is nothing to wait for
    assert len(caplog.messages) == 1


def test_every_file_of_the_cpu_kernels_counts(tmp_path):
    (tmp_path / "op").mkdir()
    for name in ("vector_code.py", "op/panels.py", "op/triton.py"):
        (tmp_path / name).write_text("x = 1\n")
    before = compiled.digest_sources(tmp_path)
    for name, same in (("vector_code.py", False), ("op/panels.py", False), ("op/triton.py", True)):
        (tmp_path / name).write_text("x = 2\n")
        compiled.digest_sources.cache_clear()
        after = compiled.digest_sources(tmp_path)
        assert (after == before) is same
        before = after


@pytest.mark.slow
def test_kernels_for_a_cpu_with_avx2_alone():
    """A newer CPU runs the code that an older one would get."""
    features = get_host_cpu_features().split(",")
    if not {"+avx2", "+avx512f"} <= set(features):
        pytest.skip("this CPU has no AVX-512: other tests cover its kernels")
    older = ["-" + name[1:] if name.startswith("+avx512") else name for name in features]
    environment = os.environ | {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ",".join(older)}
    check = (
        "from libranet.kernels import vector_code as v; assert (v.LANES, v.WIDE, v.HAS_BFLOAT16) == (8, False, False)"
    )
    subprocess.run([sys.executable, "-c", check], env=environment, check=True, timeout=60)
    tests = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "slow or not slow"]
    command += [str(tests / "test_conv3x3_panels.py"), str(tests / "test_samples_panels.py")]
    command += [str(tests.parent / "backends" / "test_cpu_network.py"), "-k", "panels or numba or kernels"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "passed" in done.stdout
