"""Detectors behind their interface: YOLOv8 against ultralytics' numbers, a real FastestDet, and what is missing."""

import builtins
from pathlib import Path

import pytest
import torch
from torch import Tensor

from libranet.errors import InputError, MissingDependencyError
from libranet.lab.perception.detectors import YoloV8, letterbox, nms, open_detector
from libranet.lab.perception.measures import measure_detections
from libranet.thirdparty import find_model, find_weights, load_weights

SHARED = Path(__file__).parents[4] / "shared" / "data"
FASTESTDET = SHARED / "weights" / "fastestdet_coco.onnx"
CARS = SHARED / "clean_clips" / "highway_cars.mp4"

# Box and best class score of four cells, as ultralytics 8.4.190 gives them with yolov8n.pt for `_image`.
PUBLISHED = {
    0: ((0.04233, 0.02546, 33.56563, 44.17742), 0.00409963),
    50: ((0.78242, 1.6374, 49.41737, 63.63094), 5.95772e-05),
    100: ((0.21163, 0.12644, 95.53857, 63.6102), 3.61091e-05),
    120: ((0.77985, 0.72311, 94.31032, 62.16239), 0.00157986),
}


def _image() -> Tensor:  # [3, 64, 96] by formula
    y, x = torch.meshgrid(torch.arange(64, dtype=torch.float64), torch.arange(96, dtype=torch.float64), indexing="ij")
    k = torch.arange(3, dtype=torch.float64)[:, None, None]
    wave = 0.25 * torch.sin(0.13 * x * (1 + 0.2 * k)) + 0.25 * torch.cos(0.011 * x * y / (k + 1) + 0.07 * y)
    return (0.5 + wave).clamp(0, 1).float()


def random_state(width: int = 8, classes: int = 3) -> dict[str, Tensor]:
    """The tensors of a very small YOLOv8."""
    generator = torch.Generator().manual_seed(0)
    state: dict[str, Tensor] = {}

    def conv(name: str, inputs: int, outputs: int, kernel: int) -> None:
        state[f"model.{name}.weight"] = torch.randn(outputs, inputs, kernel, kernel, generator=generator) * 0.1
        state[f"model.{name}.bias"] = torch.zeros(outputs)

    def csp(layer: int, inputs: int) -> None:
        conv(f"{layer}.cv1", inputs, width, 1)
        conv(f"{layer}.m.0.cv1", width // 2, width // 2, 3)
        conv(f"{layer}.m.0.cv2", width // 2, width // 2, 3)
        conv(f"{layer}.cv2", width // 2 * 3, width, 1)

    conv("0", 3, width, 3)
    for layer in (1, 3, 5, 7, 16, 19):
        conv(str(layer), width, width, 3)
    for layer in (2, 4, 6, 8):
        csp(layer, width)
    for layer in (12, 15, 18, 21):
        csp(layer, 2 * width)
    conv("9.cv1", width, width // 2, 1)
    conv("9.cv2", width * 2, width, 1)
    for level in range(3):
        for branch, outputs in (("cv2", 64), ("cv3", classes)):
            conv(f"22.{branch}.{level}.0", width, width, 3)
            conv(f"22.{branch}.{level}.1", width, width, 3)
            conv(f"22.{branch}.{level}.2", width, outputs, 1)
    return state


def test_the_published_network_gives_the_published_numbers() -> None:
    model = find_model("yolov8n")
    if find_weights(model) is None:
        pytest.skip("yolov8n is not in the cache: run `libranet weights pull yolov8n`")
    boxes, scores = YoloV8(load_weights(model), "yolov8n").forward(_image()[None])
    assert scores.shape == (1, 126, 80)
    for cell, (box, score) in PUBLISHED.items():
        assert boxes[0, cell].tolist() == pytest.approx(box, abs=2e-3)
        assert float(scores[0, cell].max()) == pytest.approx(score, rel=1e-3)


def test_boxes_come_back_to_the_frame() -> None:
    state = random_state()
    for level in range(3):  # every class score is the sigmoid of 2, every box reaches 7.5 cells to each side
        state[f"model.22.cv3.{level}.2.weight"].zero_()
        state[f"model.22.cv3.{level}.2.bias"].fill_(2.0)
        state[f"model.22.cv2.{level}.2.weight"].zero_()
    boxes, scores, _ = YoloV8(state, "tiny").detect(torch.rand(3, 90, 160, generator=torch.Generator().manual_seed(1)))
    assert len(boxes) == len(scores) > 0
    assert scores.tolist() == pytest.approx([torch.tensor(2.0).sigmoid().item()] * len(scores))
    assert boxes.min() >= 0
    assert (boxes <= torch.tensor([160, 90, 160, 90])).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    for level in range(3):
        state[f"model.22.cv3.{level}.2.bias"].fill_(-5.0)
    boxes, *_ = YoloV8(state, "tiny").detect(torch.zeros(3, 40, 40))
    assert len(boxes) == 0


def test_the_frame_is_centred_on_grey() -> None:
    x, scale, left, top = letterbox(torch.ones(3, 1080, 1920))
    assert x.shape == (1, 3, 384, 640)
    assert (scale, left, top) == (pytest.approx(1 / 3), 0, 12)
    assert x[0, :, 11].unique().tolist() == pytest.approx([114 / 255])
    assert x[0, :, 12].unique().tolist() == pytest.approx([1.0])


def test_doubles_are_dropped_within_a_class() -> None:
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [1, 1, 11, 11], [50, 50, 60, 60]], dtype=torch.float32)
    scores, labels = torch.tensor([0.5, 0.9, 0.8, 0.3]), torch.tensor([0, 0, 1, 0])
    assert nms(boxes, scores, labels, 0.45).tolist() == [1, 2, 3]
    assert nms(boxes[:0], scores[:0], labels[:0], 0.45).tolist() == []


@pytest.mark.skipif(not (FASTESTDET.is_file() and CARS.is_file()), reason="FastestDet and a clip of cars are not here")
def test_a_real_detector_finds_the_cars() -> None:
    pytest.importorskip("onnxruntime")
    av = pytest.importorskip("av")
    with av.open(str(CARS)) as container:
        frame = next(container.decode(video=0)).to_ndarray(format="rgb24")
    image = torch.from_numpy(frame).permute(2, 0, 1).float() / 255
    boxes, scores, _ = open_detector(FASTESTDET).detect(image)
    clear = measure_detections(boxes, scores, width=1280, height=720)
    assert clear["det"] >= 1
    right = boxes[scores >= 0.4]
    assert ((right[:, 0] > 700) & (right[:, 1] > 300) & (right[:, 3] < 600)).any(), "the cars are at the right"
    boxes, scores, _ = open_detector(FASTESTDET).detect(0.08 * image + 0.85)
    hazy = measure_detections(boxes, scores, width=1280, height=720)
    assert hazy["det"] <= clear["det"]


def test_a_missing_detector_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="expected a file or one of yolov8n"):
        open_detector(tmp_path / "yolo.pt")
    with pytest.raises(InputError, match="run `libranet weights pull yolov8n`"):
        open_detector(Path("yolov8n"), cache=tmp_path)
    real_import = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name.split(".", maxsplit=1)[0] == "ultralytics":
            raise ImportError(name)
        return real_import(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    (tmp_path / "yolo.pt").write_bytes(b"weights")
    with pytest.raises(MissingDependencyError, match="needs the ultralytics package"):
        open_detector(tmp_path / "yolo.pt")
