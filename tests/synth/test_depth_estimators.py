"""The depth estimators: the layout prior, and tiny random models of every kind."""

from pathlib import Path

import numpy as np
import pytest
import torch

from libranet.errors import InputError
from libranet.synth.depth_estimators import LayoutPrior, OnnxDepth, TransformersDepth, sky_mask
from libranet.synth.depth_maps import DepthRange
from small_sets import texture


def test_the_prior_puts_sky_far_and_ground_near_and_is_fixed_by_its_seed() -> None:
    image = texture(180, 320)
    raw = LayoutPrior(7).estimate(image)
    depth = DepthRange.from_estimates([raw], "disparity").normalise(raw)
    assert depth[:40].mean() > 0.9
    assert depth[-20:].mean() < 0.4
    np.testing.assert_array_equal(raw, LayoutPrior(7).estimate(image))
    assert np.abs(raw - LayoutPrior(8).estimate(image)).mean() > 0.01
    assert "not an estimate" in LayoutPrior(7).name


def test_sky_needs_the_upper_border() -> None:
    image = texture(180, 320)
    mask = sky_mask(image)
    assert mask[:50].mean() > 0.9
    assert mask[80:].mean() < 0.1
    assert sky_mask(image[::-1].copy())[:100].mean() < 0.1


def test_depth_anything_from_a_folder_of_random_weights(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    backbone = transformers.Dinov2Config(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=70,
        out_indices=[1, 2],
        reshape_hidden_states=False,
        apply_layernorm=True,
    )
    config = transformers.DepthAnythingConfig(
        backbone_config=backbone,
        reassemble_hidden_size=16,
        reassemble_factors=[2, 1],
        neck_hidden_sizes=[8, 8],
        fusion_hidden_size=8,
        head_hidden_size=4,
    )
    torch.manual_seed(0)
    transformers.DepthAnythingForDepthEstimation(config).save_pretrained(tmp_path)
    model = TransformersDepth(str(tmp_path))
    depth = model.estimate(texture(90, 160))
    assert depth.shape == (90, 160)
    assert np.isfinite(depth).all()
    assert model.name.startswith("depth_anything ")
    assert model.quantity == "disparity"


def test_a_missing_depth_model_is_named(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    with pytest.raises(InputError, match=r"depth model as folder or hub id, could not load .*nothing"):
        TransformersDepth(str(tmp_path / "nothing"))


def save_onnx(path: Path, *, channels: int = 3, fixed: bool = False) -> None:
    """A network that gives the mean over the channels: brightness as disparity."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    sides = [28, 42] if fixed else ["h", "w"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ReduceMean", ["image", "axes"], ["depth"], keepdims=0)],
        "brightness",
        [onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, [1, channels, *sides])],
        [onnx.helper.make_tensor_value_info("depth", onnx.TensorProto.FLOAT, [1, *sides])],
        [onnx.helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [1])],
    )
    opset = onnx.helper.make_opsetid("", 18)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), path)


@pytest.mark.parametrize("fixed", [False, True])
def test_an_onnx_model_runs_at_its_own_size(tmp_path: Path, fixed: bool) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    save_onnx(tmp_path / "m.onnx", fixed=fixed)
    image = np.zeros((60, 90, 3), np.uint8)
    image[:, 45:] = 255
    depth = OnnxDepth(tmp_path / "m.onnx").estimate(image)
    assert depth.shape == (60, 90)
    assert depth[:, 60:].min() > depth[:, :30].max() + 1.0


def test_onnx_mistakes_are_named(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    with pytest.raises(InputError, match=r"no file .*none\.onnx"):
        OnnxDepth(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"could not load .*bad\.onnx"):
        OnnxDepth(tmp_path / "bad.onnx")
    save_onnx(tmp_path / "four.onnx", channels=4)
    with pytest.raises(InputError, match=r"one input \[1, 3, h, w\]"):
        OnnxDepth(tmp_path / "four.onnx")
