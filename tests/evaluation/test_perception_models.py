"""Detectors and segmenters behind their interfaces: real ones where they are small enough, honest words where not."""

import builtins
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from libranet.errors import InputError, MissingDependencyError
from libranet.evaluation.perception_models import enlarge_classes, open_detector, open_segmenter
from libranet.evaluation.suppression import suppress_doubles
from libranet.metrics.perception import measure_detections, measure_segmentation

FASTESTDET = Path("/work/shared/data/weights/fastestdet_coco.onnx")
CARS = Path("/work/shared/data/clean_clips/highway_cars.mp4")


def test_doubles_are_dropped_within_a_class() -> None:
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [1, 1, 11, 11], [50, 50, 60, 60]], dtype=torch.float32)
    scores, labels = torch.tensor([0.5, 0.9, 0.8, 0.3]), torch.tensor([0, 0, 1, 0])
    assert suppress_doubles(boxes, scores, labels, 0.45).tolist() == [1, 2, 3]
    assert suppress_doubles(boxes[:0], scores[:0], labels[:0], 0.45).tolist() == []


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


@pytest.mark.skipif(not (FASTESTDET.is_file() and CARS.is_file()), reason="FastestDet and a clip of cars are not here")
def test_a_real_detector_finds_the_cars() -> None:
    pytest.importorskip("onnxruntime")
    av = pytest.importorskip("av")
    with av.open(str(CARS)) as container:
        frame = next(container.decode(video=0)).to_ndarray(format="rgb24")
    image = torch.from_numpy(frame).permute(2, 0, 1).float() / 255
    boxes, scores = open_detector(FASTESTDET).detect(image)
    clear = measure_detections(boxes, scores, width=1280, height=720)
    assert clear.count >= 1
    right = boxes[scores >= 0.4]
    assert ((right[:, 0] > 700) & (right[:, 1] > 300) & (right[:, 3] < 600)).any(), "the cars are at the right"
    boxes, scores = open_detector(FASTESTDET).detect(0.08 * image + 0.85)
    hazy = measure_detections(boxes, scores, width=1280, height=720)
    assert hazy.count <= clear.count


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="expected a file or one of yolov8n"):
        open_detector(tmp_path / "yolo.pt")
    with pytest.raises(InputError, match="run `libranet weights pull yolov8n`"):
        open_detector(Path("yolov8n"), cache=tmp_path)
    with pytest.raises(InputError, match=r"folder with config.json"):
        open_segmenter(tmp_path)
    real_import = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name.split(".", maxsplit=1)[0] == "ultralytics":
            raise ImportError(name)
        return real_import(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    (tmp_path / "yolo.pt").write_bytes(b"weights")
    with pytest.raises(MissingDependencyError, match="needs the ultralytics package"):
        open_detector(tmp_path / "yolo.pt")


def test_a_folder_that_is_no_network(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text('{"model_type": "segformer"}')
    with pytest.raises(InputError, match="holds no segmentation network"):
        open_segmenter(tmp_path)
