"""Segmenters behind their interface: a tiny SegFormer, and folders that hold none."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from libranet.errors import InputError
from libranet.lab.perception.measures import SegmentationMetric
from libranet.lab.perception.segmenters import TransformersSegmenter, enlarge_classes


def test_classes_are_enlarged_as_torch_does() -> None:
    logits = torch.randn(5, 9, 11, generator=torch.Generator().manual_seed(0))
    expected = F.interpolate(logits[None], size=(70, 83), mode="bilinear", align_corners=False)[0].argmax(dim=0)
    found = enlarge_classes(logits, 70, 83)
    assert (found == expected.numpy()).mean() > 0.999, "ties may fall either way"


def test_a_tiny_segformer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.SegformerConfig(
        num_labels=6,
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 8, 16, 16],
        num_attention_heads=[1, 1, 2, 2],
        decoder_hidden_size=16,
    )
    transformers.SegformerForSemanticSegmentation(config).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"size": {"height": 64, "width": 96}}')
    segmenter = TransformersSegmenter(tmp_path)
    assert segmenter.classes == 6
    assert "segformer" in segmenter.name
    image = torch.rand(3, 50, 70, generator=torch.Generator().manual_seed(1))
    classes = segmenter.segment(image)
    assert classes.shape == (50, 70)
    assert classes.dtype == np.int16
    measured = SegmentationMetric(segmenter).measure(image)
    assert 0 <= measured["bdrye"] <= 1
    assert 0 <= measured["classh"] <= 1


def test_a_missing_segmenter_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"folder with config.json"):
        TransformersSegmenter(tmp_path)


def test_a_folder_that_is_no_network(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text('{"model_type": "segformer"}')
    with pytest.raises(InputError, match="holds no segmentation network"):
        TransformersSegmenter(tmp_path)
