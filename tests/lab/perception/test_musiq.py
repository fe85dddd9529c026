"""MUSIQ against the numbers of pyiqa 0.1.16 with the same weights by formula, and what is no MUSIQ."""

import math

import pytest
import safetensors.torch
import torch
from torch import Tensor

from libranet.errors import CheckpointError, InputError
from libranet.evaluation.metric_table import choose_metrics
from libranet.evaluation.scores import prepare_scores
from libranet.lab.perception.musiq import Musiq, read_musiq_weights

WIDTH, HIDDEN = 24, 48
PYIQA = {
    (1, 150, 260): -0.10454794,
    (1, 64, 500): -0.07781161,
    (1, 224, 224): -0.15521370,
    (5, 150, 260): 3.15381432,
    (5, 64, 500): 3.13711333,
}
"""Score by classes, height and width."""


def shapes(classes: int) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        "conv_root.weight": (64, 3, 7, 7),
        "block1.conv1.weight": (64, 64, 1, 1),
        "block1.conv2.weight": (64, 64, 3, 3),
        "block1.conv3.weight": (256, 64, 1, 1),
        "block1.conv_proj.weight": (256, 64, 1, 1),
        "embedding.weight": (WIDTH, 16384),
        "embedding.bias": (WIDTH,),
        "transformer_encoder.cls": (1, 1, WIDTH),
        "transformer_encoder.posembed_input.position_emb": (1, 100, WIDTH),
        "transformer_encoder.scaleembed_input.scale_emb": (3, WIDTH),
    }
    head = "head" if classes == 1 else "head.0"
    found |= {f"{head}.weight": (classes, WIDTH), f"{head}.bias": (classes,)}
    norms = {"gn_root": 64, "block1.gn1": 64, "block1.gn2": 64, "block1.gn3": 256, "block1.gn_proj": 256}
    norms["transformer_encoder.encoder_norm"] = WIDTH
    for layer in range(2):
        name = f"transformer_encoder.transformer.encoderblock_{layer}"
        norms |= {f"{name}.norm1": WIDTH, f"{name}.norm2": WIDTH}
        linear = {f"attention.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value", "out")}
        linear |= {"mlp.fc1": (HIDDEN, WIDTH), "mlp.fc2": (WIDTH, HIDDEN)}
        for part, shape in linear.items():
            found |= {f"{name}.{part}.weight": shape, f"{name}.{part}.bias": shape[:1]}
    for name, width in norms.items():
        found |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    return found


def weights(classes: int = 1) -> dict[str, Tensor]:
    """Weights by formula."""
    state = {}
    for index, (name, shape) in enumerate(sorted(shapes(classes).items())):
        wave = torch.sin(torch.arange(math.prod(shape), dtype=torch.float64) * (0.7 + 0.01 * index) + index)
        wave *= 0.5 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.1
        wave += 1.0 if name.endswith("weight") and len(shape) == 1 else 0.0
        state[name] = wave.reshape(shape).float()
    return state


def frame(height: int, width: int) -> Tensor:
    y, x = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")
    wave = 0.5 + 0.3 * torch.sin(0.05 * x + 0.01 * y) * torch.cos(0.03 * y) + 0.15 * torch.sin(0.002 * x * y)
    return torch.stack([wave, 0.9 * wave, 1 - wave]).clamp(0, 1).float()


@pytest.mark.parametrize(("case", "expected"), PYIQA.items())
def test_it_agrees_with_pyiqa(case, expected):
    classes, height, width = case
    assert Musiq(weights(classes)).score(frame(height, width)) == pytest.approx(expected, abs=2e-6)


def test_other_weights_are_refused():
    state = weights()
    with pytest.raises(CheckpointError, match=r"'embedding.weight' is missing"):
        Musiq({name: value for name, value in state.items() if name != "embedding.weight"})
    with pytest.raises(CheckpointError, match="not MUSIQ's: expected"):
        Musiq(state | {"head.weight": torch.zeros(1, 7)})


def test_weights_come_by_path(tmp_path):
    safetensors.torch.save_file(weights(), tmp_path / "musiq.safetensors")
    scores = prepare_scores(choose_metrics("musiq"), paired=False, musiq=tmp_path / "musiq.safetensors")
    assert scores.estimators == {"musiq": "MUSIQ (musiq.safetensors)"}
    assert "use --musiq" in prepare_scores(choose_metrics("musiq"), paired=False).not_measured["musiq"]
    with pytest.raises(InputError, match="check the path given with musiq"):
        read_musiq_weights(tmp_path / "none.pth")
    torch.save(weights(), tmp_path / "mine.pth")
    with pytest.raises(CheckpointError, match="not the published musiq_koniq"):
        read_musiq_weights(tmp_path / "mine.pth")
