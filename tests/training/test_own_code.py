"""A user's own network, loss and data, named in a recipe: trained, logged, resumed, and used by every command."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from libranet.cli.main import main
from libranet.data import PairedClip, folder_pairs
from libranet.errors import CheckpointError, InputError
from libranet.evaluation.restorers import open_restorer
from libranet.network.base import Predicted
from libranet.network.libranet import LiBrANet
from libranet.network.peer import Peer, PeerConfig
from libranet.runtime import load_network, make_backend
from libranet.runtime.choose import why_not_design, why_not_fused_here
from libranet.training.dry_run import plan_training
from libranet.training.start import train
from tiny_network import TINY
from tiny_set import make_frames, make_hazy, write_frames, write_pairs


class Net(nn.Module):
    """One frame in, one out."""

    divisor = 4

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[-1] % 4 == 0
        return x + self.body(x)


class Causal(nn.Module):
    """Looks at the frame before."""

    past = 1

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(6, 3, 1)

    def forward(self, frames: Tensor) -> Tensor:
        return frames[:, 1] + 0.01 * self.mix(frames.flatten(1, 2))


class Extended(LiBrANet):
    """LiBrA-Net with a change of its own, which no kernel knows."""

    def __init__(self) -> None:
        super().__init__(TINY)


class OwnPeer(Peer):
    def __init__(self) -> None:
        super().__init__(PeerConfig("own"))
        self.gain = nn.Parameter(torch.ones(()))

    def restore(self, frames: Tensor) -> Tensor:
        return frames[:, 0] * self.gain


class WrongShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Needy(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()


def edges(prediction: Predicted, clear: Tensor) -> Tensor:
    return (prediction.image.diff(dim=-1) - clear.diff(dim=-1)).abs().mean()


class Brightness:
    def __call__(self, prediction: Predicted, clear: Tensor) -> Tensor:
        return (prediction.image.mean() - clear.mean()).abs()


def per_pixel(prediction: Predicted, clear: Tensor) -> Tensor:
    return (prediction.image - clear).abs()


def open_clips(path: str) -> list[PairedClip]:
    return folder_pairs(Path(path) / "fog", Path(path) / "sun")


class Samples(Dataset):
    """Windows of random frames."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        frames = torch.rand(5, 3, 48, 48, generator=torch.Generator().manual_seed(index))
        return {"hazy": frames, "clear": frames[2]}


def open_samples(path: str) -> Dataset:
    return Samples()


def open_nothing(path: str) -> None:
    return None


MODEL = """
[model]
window = 5
encoder = { size = 32, widths = [8, 8, 8, 16], blocks = 1 }
fields = { hidden = 8, attention_heads = 2, ffn_ratio = 2 }
refiner = { width = 8 }
"""
BASE = """
steps = 4
batch = 2
crops = [[48, 48]]
precision = "fp32"
[loss]
perceptual = "none"
[every]
log = 1
checkpoint = 2
"""


@pytest.fixture
def recipe(tmp_path):
    """Writes a recipe over pairs in hazy/ and clear/."""
    write_pairs(tmp_path / "set")

    def write(more: str = "", *, top: str = "", paired: str = "") -> Path:
        sides = f'hazy = "{tmp_path}/set/hazy"\nclear = "{tmp_path}/set/clear"\nworkers = 0\n'
        path = tmp_path / "recipe.toml"
        path.write_text(f"{top}\n{BASE}\n[paired]\n{paired or sides}\n{more}")
        return path

    return write


def log(folder: Path, group: str = "train") -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["group"] == group]


def test_terms_of_ones_own_are_trained_and_logged(tmp_path, recipe):
    terms = f'[[loss.extra]]\nterm = "{__name__}:edges"\nweight = 0.5\n'
    terms += f'[[loss.extra]]\nterm = "{__name__}:Brightness"\nname = "mean"\n'
    train(recipe(MODEL + terms), tmp_path / "run", device="cpu")
    lines = log(tmp_path / "run")
    assert len(lines) == 4
    for line in lines:
        parts = line["pixel"] + 0.2 * line["lie"] + 0.5 * line["edges"] + line["mean"]
        assert line["total"] == pytest.approx(parts, rel=1e-5)
        assert line["edges"] > 0
    train(recipe(MODEL + terms), tmp_path / "parts", overrides=["accumulate=2", "loss.pixel_weight=0"], device="cpu")
    assert log(tmp_path / "parts")[0]["edges"] == pytest.approx(lines[0]["edges"], rel=0.5)


def test_a_network_of_ones_own_is_trained_resumed_and_used(tmp_path, recipe):
    name = f"{__name__}:Net"
    path = recipe(top=f'peer = "{name}"')
    train(path, tmp_path / "run", overrides=["steps=2"], device="cpu")
    train(path, tmp_path / "run", resume=True, device="cpu")
    train(path, tmp_path / "again", device="cpu")
    weights = str(tmp_path / "run" / "model.safetensors")
    network = load_network(name, weights=weights, device="cpu")
    assert (network.architecture, network.config.divisor) == (name, 4)
    with pytest.raises(CheckpointError, match=f"give model {name} weights"):
        load_network(weights, device="cpu")
    with pytest.raises(CheckpointError, match=r"expected the weights of .*:Causal, .* holds those of .*:Net"):
        load_network(f"{__name__}:Causal", weights=weights, device="cpu")
    restorer = open_restorer(f"mine={name}@{weights}")
    assert restorer.name == "mine"
    train(path, tmp_path / "more", overrides=[f"init_from={weights}"], device="cpu")


def test_neighbours_and_sizes_are_those_the_class_states(tmp_path):
    frames = torch.rand(3, 3, 3, 34, 46)
    assert load_network(f"{__name__}:Net", device="cpu")(frames[:, :1]).shape == (3, 3, 34, 46)
    causal = load_network(f"{__name__}:Causal", device="cpu")
    assert causal.config.window == 3
    expected = causal.module(frames[:, :2]).clamp(0, 1)
    assert torch.allclose(causal(frames), expected)
    assert load_network(f"{__name__}:OwnPeer", device="cpu").architecture == f"{__name__}:OwnPeer"


def test_kernels_do_not_take_what_extends_our_network(monkeypatch):
    network = load_network(f"{__name__}:Extended", device="cpu")
    assert "extends it" in why_not_design(network)
    assert "Extended" in why_not_fused_here(network)
    assert make_backend(network, backend="auto").name == "plain"


WRONG_NETWORKS = {
    "no such module": ("nowhere:Net", r"could not import nowhere"),
    "no such class": (f"{__name__}:Nat", r"has no 'Nat'"),
    "needs arguments": (f"{__name__}:Needy", r"made without arguments: .*width"),
    "no module": (f"{__name__}:Brightness", r"to make a torch module, got Brightness"),
}


@pytest.mark.parametrize("name", WRONG_NETWORKS)
def test_what_is_no_network_is_named(name):
    spec, sentence = WRONG_NETWORKS[name]
    with pytest.raises(InputError, match=sentence):
        load_network(spec, device="cpu")


def test_a_wrong_result_is_named():
    network = load_network(f"{__name__}:WrongShape", device="cpu")
    with pytest.raises(InputError, match=r"to return one frame \(1, 3, 32, 32\) .* got \(1, 1, 32, 32\)"):
        network(torch.rand(1, 1, 3, 32, 32))


def test_modules_in_the_current_folder_are_found(tmp_path, monkeypatch):
    (tmp_path / "my_own_net.py").write_text(
        "import torch\nclass Same(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    monkeypatch.chdir(tmp_path)
    assert load_network("my_own_net:Same", device="cpu").weights.name == "Same"


def test_data_of_ones_own(tmp_path, recipe):
    clear = make_frames(6)
    write_frames(tmp_path / "own" / "fog" / "a", make_hazy(clear))
    write_frames(tmp_path / "own" / "sun" / "a", clear)
    for opener in ("open_clips", "open_samples"):
        paired = f'path = "{tmp_path}/own"\nopener = "{__name__}:{opener}"\nworkers = 0\n'
        path = recipe(MODEL, paired=paired)
        train(path, tmp_path / opener, device="cpu")
        assert len(log(tmp_path / opener)) == 4
        lines = plan_training(path, tmp_path / f"{opener}-dry", device="cpu").lines()
        assert any("1 clips in" in line or "8 samples of" in line for line in lines)
    paired = f'opener = "{__name__}:open_nothing"\n'
    with pytest.raises(InputError, match="to return clips"):
        train(recipe(MODEL, paired=paired), tmp_path / "none", device="cpu")


WRONG_RECIPES = {
    "a term twice": (f'[[loss.extra]]\nterm = "{__name__}:edges"\n' * 2, r"two terms of the loss are called 'edges'"),
    "a key of ours": (f'[[loss.extra]]\nterm = "{__name__}:edges"\nname = "pixel"', r"are called 'pixel'"),
    "no name": ('[[loss.extra]]\nterm = "edges"', r"expected term = package\.module:name"),
    "no number": (f'[[loss.extra]]\nterm = "{__name__}:per_pixel"', r"per_pixel to return one number"),
}


@pytest.mark.parametrize("name", WRONG_RECIPES)
def test_wrong_terms_are_named(tmp_path, recipe, name):
    more, sentence = WRONG_RECIPES[name]
    with pytest.raises(InputError, match=sentence):
        train(recipe(MODEL + more), tmp_path / "run", device="cpu")


def test_both_sides_or_none(tmp_path, recipe):
    for paired in ('hazy = "a"', 'hazy = "a"\nclear = "b"\npath = "c"', 'opener = "open"'):
        with pytest.raises(InputError, match=r"in \[paired\]"):
            train(recipe(MODEL, paired=paired), tmp_path / "run", device="cpu")


def test_wrong_pairs_are_flagged_before_a_night_is_spent_on_them(tmp_path, recipe, caplog):
    write_frames(tmp_path / "set" / "clear" / "two", make_frames(5, seed=9))
    (tmp_path / "set/hazy/one/00001.png").unlink()
    (tmp_path / "set/clear/one/00001.png").unlink()
    path = recipe(MODEL)
    plan = "\n".join(plan_training(path, tmp_path / "run", device="cpu").lines())
    assert "9 pairs compared, correlation of their details at least" in plan
    assert "CHECK: clip two: hazy and clear frame 2 do not show the same" in plan
    assert "CHECK: clip one: 1 of the numbers 0 to 4 is missing: 1" in plan
    train(path, tmp_path / "run", overrides=["steps=1"], device="cpu")
    assert "clip two: hazy and clear frame 2 do not show the same" in caplog.text


def test_tensorboard_shows_repeated_steps_once(tmp_path, recipe):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path = recipe(MODEL)
    train(path, tmp_path / "run", overrides=["steps=3", "every.checkpoint=2"], device="cpu")
    state = (tmp_path / "run" / "state.safetensors").read_bytes()
    train(path, tmp_path / "run", overrides=["steps=6", "every.checkpoint=3"], resume=True, device="cpu")
    (tmp_path / "run" / "state.safetensors").write_bytes(state)  # as if killed after step 6, with the state of step 3
    train(path, tmp_path / "run", overrides=["steps=6"], resume=True, device="cpu")
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    assert [event.step for event in board.Scalars("train/pixel")] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in log(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]


def test_every_command_takes_it(tmp_path, monkeypatch, capsys):
    from libranet.cli.main import main
    from libranet.images import Image, read_image, write_image

    write_image(tmp_path / "in.png", Image(make_hazy(make_frames(1))[0]))

    def call(*words: object) -> str:
        monkeypatch.setattr("sys.argv", ["libranet", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        return capsys.readouterr().out

    name = f"{__name__}:Net"
    call("dehaze", tmp_path / "in.png", "-o", tmp_path / "out.png", "--model", name, "--device", "cpu")
    assert read_image(tmp_path / "out.png").samples.shape == (48, 64, 3)
    assert (
        json.loads(call("info", "--model", name, "--size", "64x48", "--json"))["parameters"] == 8 * 27 + 8 + 8 * 48 + 3
    )
    call(
        "bench", "--models", name, "--sizes", "64x48", "--device", "cpu", "--seconds", "0.01", "-o", tmp_path / "bench"
    )


def test_an_exception_in_own_code_is_not_called_a_bug_of_libranet(tmp_path, monkeypatch, capsys):
    (tmp_path / "failing.py").write_text(
        "from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n        return {}['my key']\n"
    )
    write_frames(tmp_path / "frames", make_frames(2))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["libranet", "dehaze", "frames", "-o", "out", "--model", "failing:Net"])
    with pytest.raises(SystemExit):
        main()
    assert f"KeyError ('my key') in your own code, {tmp_path / 'failing.py'}:4" in capsys.readouterr().err.replace(
        "\n", ""
    )
