"""Segmenters behind their interface: a tiny SegFormer, and folders that hold none."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from libranet.errors import InputError
from libranet.evaluation.segmenters import enlarge_classes, open_segmenter
from libranet.metrics.perception import measure_segmentation


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
    segmenter = open_segmenter(tmp_path)
    assert segmenter.classes == 6
    assert "segformer" in segmenter.name
    classes = segmenter.segment(torch.rand(3, 50, 70, generator=torch.Generator().manual_seed(1)))
    assert classes.shape == (50, 70)
    assert classes.dtype == np.int16
    measured = measure_segmentation(classes, segmenter.classes)
    assert 0 <= measured.boundary <= 1
    assert 0 <= measured.entropy <= 1


def test_a_missing_segmenter_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"folder with config.json"):
        open_segmenter(tmp_path)


def test_a_folder_that_is_no_network(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text('{"model_type": "segformer"}')
    with pytest.raises(InputError, match="holds no segmentation network"):
        open_segmenter(tmp_path)
