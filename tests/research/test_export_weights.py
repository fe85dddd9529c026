"""The tool that makes the package's weights: a mean of checkpoints, weighted where asked."""

import sys
from pathlib import Path

import pytest
import torch

from libranet.network import LiBrANet, load_model, read_checkpoint_info, save_checkpoint
from tiny_network import TINY, perturb

ROOT = Path(__file__).parents[2]


@pytest.fixture
def export(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "research"))
    import export_weights

    def call(*arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", ["export_weights.py", *map(str, arguments)])
        export_weights.main()

    yield call
    sys.modules.pop("export_weights", None)


@pytest.fixture
def runs(tmp_path) -> list[Path]:
    paths = [tmp_path / f"{seed}.safetensors" for seed in range(3)]
    for seed, path in enumerate(paths):
        save_checkpoint(perturb(LiBrANet(TINY), seed=seed), path)
    return paths


@pytest.mark.parametrize("shares", [None, [1.5, 0.5, -1.0]])
def test_the_file_is_the_weighted_mean_and_says_so(export, runs, tmp_path, shares) -> None:
    out = tmp_path / "mean.safetensors"
    export(*runs, "-o", out, "--version", "1.1", *(f"--share={share}" for share in shares or []))
    shares = shares or [1 / 3] * 3
    states = [load_model(path).state_dict() for path in runs]
    for name, value in load_model(out).state_dict().items():
        expected = sum(share * state[name] for share, state in zip(shares, states, strict=True))
        torch.testing.assert_close(value, expected.half().float(), atol=1e-4, rtol=1e-3)
    info = read_checkpoint_info(out)
    assert info.provenance["shares"] == shares
    assert (info.name, info.version) == ("libranet-base", "1.1")


@pytest.mark.parametrize("shares", [[1.0], [1.0, 1.0, 1.0]])
def test_shares_that_do_not_fit_are_refused_and_nothing_is_written(export, runs, tmp_path, shares, capsys) -> None:
    out = tmp_path / "mean.safetensors"
    with pytest.raises(SystemExit):
        export(*runs, "-o", out, "--version", "1.1", *(f"--share={share}" for share in shares))
    assert "one per checkpoint, that sum to 1" in capsys.readouterr().err
    assert not out.exists()


def test_a_baked_strength_is_the_strength(export, tiny_model) -> None:
    from export_weights import bake_strength

    frames = torch.rand(1, 5, 3, 33, 47)
    wanted = {s: tiny_model(frames, strength=0.7 * s) for s in (0.5, 1.0)}
    bake_strength(tiny_model, 0.7)
    for strength, expected in wanted.items():
        torch.testing.assert_close(tiny_model(frames, strength=strength), expected, rtol=0, atol=1e-5)


def test_a_network_with_a_dead_part_is_not_exported(export, tmp_path, capsys) -> None:
    network = perturb(LiBrANet(TINY))
    with torch.no_grad():
        network.temporal.head.expand.bias.fill_(-100.0)
    save_checkpoint(network, tmp_path / "dead.safetensors")
    with pytest.raises(SystemExit):
        export(tmp_path / "dead.safetensors", "-o", tmp_path / "out.safetensors", "--version", "1.1")
    assert "the temporal field is dead" in capsys.readouterr().err
    assert not (tmp_path / "out.safetensors").exists()
