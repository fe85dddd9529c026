"""Perceptual losses over extractors with random weights."""

from types import SimpleNamespace

import pytest
import safetensors.torch
import torch

from libranet.errors import CheckpointError, InputError
from libranet.losses.objective import LossConfig, Objective
from libranet.losses.perceptual import DinoV2Features, PerceptualLoss, VggFeatures
from libranet.network import Grids


@pytest.fixture(scope="module")
def dino_folder(tmp_path_factory):
    """A DINOv2 with random weights, saved as the hub's models are."""
    from transformers import Dinov2Config, Dinov2Model

    folder = tmp_path_factory.mktemp("dino")
    torch.manual_seed(0)
    config = Dinov2Config(hidden_size=32, num_hidden_layers=4, num_attention_heads=2, image_size=56, patch_size=14)
    Dinov2Model(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def vgg_file(tmp_path_factory):
    """VGG weights of the right shapes, random, with torchvision's names (first two blocks)."""
    path = tmp_path_factory.mktemp("vgg") / "vgg.safetensors"
    torch.manual_seed(0)
    shapes = {0: (64, 3), 2: (64, 64), 5: (128, 64), 7: (128, 128)}
    state = {f"features.{i}.weight": torch.randn(o, n, 3, 3) * (2 / (9 * n)) ** 0.5 for i, (o, n) in shapes.items()}
    state |= {f"features.{i}.bias": torch.zeros(o) for i, (o, _) in shapes.items()}
    safetensors.torch.save_file(state | {"classifier.0.weight": torch.zeros(2)}, path)
    return path


def check_extractor(extractor):
    loss, image = PerceptualLoss(extractor), torch.rand(2, 3, 60, 44)
    assert float(loss(image, image)) == 0
    noisy = (image + 0.1 * torch.randn_like(image)).clamp(0, 1).requires_grad_()
    value = loss(noisy, image)
    value.backward()
    assert value.item() > 0
    assert noisy.grad.abs().sum() > 0
    assert all(p.grad is None and not p.requires_grad for p in loss.parameters())


def test_dinov2_features(dino_folder):
    extractor = DinoV2Features(dino_folder, layers=(1, 2, 4))
    features = extractor(torch.rand(1, 3, 60, 44))
    assert [f.shape for f in features] == [(1, 4 * 3, 32)] * 3  # 4 x 3 patches, without the class token
    check_extractor(extractor)


def test_weights_in_half_precision_compute_in_single(dino_folder, tmp_path):
    from transformers import Dinov2Model

    Dinov2Model.from_pretrained(dino_folder).half().save_pretrained(tmp_path)
    extractor, whole = (DinoV2Features(folder, layers=(4,)) for folder in (tmp_path, dino_folder))
    image = torch.rand(1, 3, 56, 56)
    found, expected = extractor(image)[0], whole(image)[0]
    assert found.dtype == torch.float32
    assert torch.allclose(found, expected, atol=0.02)


def test_vgg_features(vgg_file):
    extractor = VggFeatures(vgg_file, taps=2)
    assert [f.shape for f in extractor(torch.rand(1, 3, 32, 48))] == [(1, 64, 32, 48), (1, 128, 16, 24)]
    check_extractor(extractor)


def test_vgg_19_has_the_published_layout():
    with torch.device("meta"), pytest.raises(CheckpointError, match="no VGG-19 weights at nowhere"):
        VggFeatures("nowhere")


def test_wrong_weights_say_what_is_wrong(tmp_path, vgg_file, dino_folder):
    with pytest.raises(CheckpointError, match=r"does not hold VGG-19: features\.10\.weight is nothing"):
        VggFeatures(vgg_file)
    (tmp_path / "bad").write_text("no")
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        VggFeatures(tmp_path / "bad")
    with pytest.raises(CheckpointError, match=r"no DINOv2 weights at .*nothing-here"):
        DinoV2Features(tmp_path / "nothing-here")
    with pytest.raises(CheckpointError, match=r"layers between 1 and 4, got \[5\]"):
        DinoV2Features(dino_folder, layers=(5,))


def test_the_objective_looks_at_the_middle_with_the_blocks_it_is_given(vgg_file):
    config = LossConfig(
        perceptual="vgg16", perceptual_source=str(vgg_file), perceptual_taps=2, perceptual_crop=16, lie_weight=0.0
    )
    objective = Objective(config, torch.device("cpu"))
    clear = torch.rand(1, 3, 40, 48)
    grids = Grids(torch.zeros(1, 2, 12, 8, 4, 4), None)

    def perceptual(rows: slice) -> float:
        changed = clear.clone()
        changed[..., rows, :] = 0.5
        return float(objective(SimpleNamespace(image=changed, grids=grids, small=None), clear).perceptual)

    assert perceptual(slice(0, 11)) == 0.0  # the square begins at row 12
    assert perceptual(slice(16, 24)) > 0.0
    with pytest.raises(InputError, match="perceptual_taps from 1 to 5, got 6"):
        LossConfig(perceptual_taps=6)
