import pytest
import safetensors.torch
import torch

from libranet.errors import CheckpointError
from libranet.losses import (
    DinoV2Features,
    LieWeights,
    PerceptualLoss,
    VggFeatures,
    charbonnier,
    lie_regulariser,
)
from libranet.models import Grids, LiBrANet
from tiny_network import TINY


def test_charbonnier_is_epsilon_at_the_target_and_l1_far_from_it():
    target = torch.zeros(2, 3, 8, 8)
    assert abs(float(charbonnier(target, target)) - 1e-3) < 1e-9
    assert abs(float(charbonnier(target + 0.5, target)) - 0.5) < 1e-5
    assert torch.autograd.gradcheck(charbonnier, torch.rand(2, 4, dtype=torch.float64).requires_grad_().unbind(0))


def flat_grids(value: float = 0.0) -> Grids:
    return Grids(torch.full((1, 2, 12, 8, 4, 4), value), torch.full((1, 12, 5, 4, 4), value))


def test_zero_grids_cost_nothing():
    terms = lie_regulariser(flat_grids())
    assert all(float(term) == 0 for term in vars(terms).values())


def test_each_penalty_sees_its_own_fault_and_no_other():
    constant = lie_regulariser(flat_grids(0.5))
    assert float(constant.identity) == pytest.approx(0.25)
    assert float(constant.spatial) == float(constant.temporal) == float(constant.guide) == 0

    translation = flat_grids()
    translation.chromatic[:, :, 9:] = 1.0
    translation.temporal[:, 9:] = 1.0
    assert float(lie_regulariser(translation).identity) == 0  # the prior is on M, not on b

    flicker = flat_grids()
    flicker.temporal[:, :, ::2] = 1.0
    terms = lie_regulariser(flicker)
    assert float(terms.temporal) == pytest.approx(1.0)
    assert float(terms.spatial) == float(terms.guide) == 0

    hue = flat_grids()
    hue.chromatic[:, 0] = 0.3
    assert float(lie_regulariser(hue).guide) == pytest.approx(0.3)

    stripes = flat_grids()
    stripes.chromatic[..., ::2] = 1.0
    assert float(lie_regulariser(stripes).spatial) == pytest.approx(0.5)  # mean of 1 and of the flat temporal grid


def test_the_total_is_the_weighted_sum():
    grids = Grids(torch.randn(2, 2, 12, 8, 4, 4), torch.randn(2, 12, 5, 4, 4))
    weights = LieWeights(identity=1.0, spatial=2.0, temporal=3.0, guide=4.0)
    t = lie_regulariser(grids, weights)
    torch.testing.assert_close(t.total, t.identity + 2 * t.spatial + 3 * t.temporal + 4 * t.guide)


def test_variants_without_a_field_have_a_regulariser_too():
    only_chromatic = lie_regulariser(Grids(torch.randn(1, 2, 12, 8, 4, 4), None))
    assert float(only_chromatic.temporal) == 0
    assert float(only_chromatic.total) > 0
    only_temporal = lie_regulariser(Grids(None, torch.randn(1, 12, 1, 4, 4)))
    assert float(only_temporal.guide) == float(only_temporal.temporal) == 0
    assert float(only_temporal.total) > 0


def test_the_regulariser_trains_the_heads():
    model = LiBrANet(TINY)
    torch.nn.init.normal_(model.chromatic.head.project.weight)
    lie_regulariser(model.predict_grids(torch.rand(1, 5, 3, 32, 32))).total.backward()
    assert model.chromatic.head.project.weight.grad.abs().sum() > 0


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
    assert [f.shape for f in features] == [(1, 1 + 4 * 3, 32)] * 3  # one class token, 4 x 3 patches
    check_extractor(extractor)


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
