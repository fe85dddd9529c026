"""Fixtures that several packages use."""

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import util
from pathlib import Path

import pytest
import torch
from torch import Tensor

from libranet.kernels.native import library
from libranet.network import LiBrANet, LiBrANetConfig, save_checkpoint
from libranet.runtime import choose
from libranet.thirdparty import find_model, find_weights, load_weights, pull_weights
from tiny_network import TINY, perturb


@pytest.fixture
def tiny_config() -> LiBrANetConfig:
    return TINY


@pytest.fixture
def tiny_model() -> LiBrANet:
    """A tiny network with weights at which its output differs from its input."""
    torch.manual_seed(0)
    return perturb(LiBrANet(TINY))


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a file."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_checkpoint(perturb(LiBrANet(TINY)), path)
    return path


@pytest.fixture(autouse=True)
def _plain_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` takes the plain network, the reference that tests compare with, unless they name the kernels."""
    monkeypatch.setattr(choose, "WORTH_PACKING", 10**12)


@pytest.fixture
def use_level(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run the CPU kernels at a level of instructions that an older CPU would take."""

    def use(level: str) -> None:
        if level not in library.levels():
            pytest.skip(f"no kernels for {level} here: {library.why_no_library() or 'this CPU lacks it'}")
        monkeypatch.setattr(library, "level", lambda: level)

    return use


THREADS = torch.get_num_threads()


@pytest.fixture(autouse=True)
def _same_threads() -> None:
    """Every test begins with the same number of threads, which decides the last bits of a network on a CPU."""
    if torch.get_num_threads() != THREADS:
        torch.set_num_threads(THREADS)


if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is first imported, which is later than here
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Kernel tests (`test_*_triton.py`) run on a GPU, or without one in Triton's interpreter."""


LONG = ("test_compiles", "test_site", "test_on_ray", "test_install", "test_step_triton", "test_parts", "test_browser")
"""Files whose tests take longest. They come first, or one process would wait for another at the end."""
MORE = {
    *("lab", "research", "cluster"),  # folders: the laboratory, its scripts, Ray
    *("test_conformance", "test_times", "test_video_matrix", "test_sound_in_old_containers"),  # independent encoders
    *("test_browser", "test_visits", "test_site", "test_report_look"),  # Chromium
    *(
        "test_compiles",
        "test_weight_stationary_gluon",
        "test_step_triton",
        "test_training_triton",
    ),  # kernels for other cards, and whole steps
    *("test_examples", "test_install", "test_runtime_examples"),  # other processes, environments and languages
    *("test_parts", "test_recording", "test_scale_and_two_passes", "test_loop", "test_exporter", "test_jobs"),
    *(
        "test_watch",
        "test_live_output",
        "test_slow_visitors",
        "test_server_processes",
        "test_dry_run",
    ),  # what waits for time to pass
    *("test_samples_triton", "test_drawing_triton", "test_windows_triton", "test_encoder_layers_triton"),  # interpreted
    *("test_schema", "test_proxies"),  # other programs ask the server
}
"""Folders and files whose tests `make test-more` runs, so that `make test` stays under three minutes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-gpu", action="store_true", help="tests that need a GPU fail without one instead of being skipped"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in LONG)
    for item in items:
        if MORE & {item.path.stem, *item.path.relative_to(Path(__file__).parent).parts}:
            item.add_marker(pytest.mark.more)
        if item.path.stem.endswith("_triton"):
            if util.find_spec("triton") is None:
                item.add_marker(pytest.mark.skip("Triton is not installed: pip install 'libranet[gpu]'"))
            if not INTERPRETED or config.getoption("--require-gpu"):
                item.add_marker(pytest.mark.gpu)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("kernels") and (reason := library.why_no_library()):
        pytest.skip(reason)
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        _missing(item.config, "no CUDA device")


def _missing(config: pytest.Config, reason: str) -> None:
    """Skip a test for want of hardware, or fail it where that must be there."""
    if config.getoption("--require-gpu"):
        pytest.fail(f"{reason}, and --require-gpu was given", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def device() -> str:
    """The device kernels run on."""
    if not INTERPRETED:
        return "cuda"
    from triton.runtime.interpreter import interpreter_builder

    # Half of the interpreter's time would go into checks for integer overflow, which tests of this size cannot reach.
    interpreter_builder.options = replace(interpreter_builder.options, sanitize_overflow=False)
    return "cpu"


@pytest.fixture
def hopper(request: pytest.FixtureRequest) -> str:
    """A device for the weight-stationary kernels."""
    from libranet.runtime.gpu.support import supports_weight_stationary

    if not supports_weight_stationary(64, torch.device("cuda")):
        _missing(request.config, "no Hopper GPU")
    return "cuda"


@pytest.fixture
def exact_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU float32 convolutions round their input to 10 bits unless told not to."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


SHARED = Path(__file__).parents[2] / "shared" / "data" / "weights"


@pytest.fixture
def published(tmp_path: Path) -> Callable[[str], dict[str, Tensor]]:
    """Load third-party weights by name, from the user's cache or a folder beside the project, never from the web."""

    def load(name: str) -> dict[str, Tensor]:
        model = find_model(name)
        if find_weights(model):
            return load_weights(model)
        if (SHARED / model.files[0].name).is_file():
            pull_weights(model, tmp_path, local=SHARED)
            return load_weights(model, tmp_path)
        pytest.skip(f"{name} is not in the cache: run `libranet weights pull {name}`")

    return load
