"""The metrics of one run, prepared once: weights loaded, estimators chosen, reasons for what is not measured."""

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from libranet.errors import CheckpointError, LibraNetError
from libranet.evaluation.detectors import Detector, open_detector
from libranet.evaluation.metric_table import Metric, find_metric
from libranet.evaluation.segmenters import Segmenter, open_segmenter
from libranet.flow import DisFlow, FlowEstimator, RaftFlow, RaftSmall, warp_tensor
from libranet.metrics.blind import FrameFacts, compare_with_input
from libranet.metrics.fidelity import psnr, ssim
from libranet.metrics.lpips import Lpips
from libranet.metrics.musiq import Musiq
from libranet.metrics.no_reference import MATLAB, NIQE_LEAST, SCIKIT_VIDEO, NiqeVariant, brisque, niqe
from libranet.metrics.perception import measure_detections, measure_segmentation
from libranet.metrics.temporal import warp_error
from libranet.thirdparty import explain_absence, find_model, find_weights, load_weights
from libranet.thirdparty.musiq import MUSIQ_FILE, read_musiq_weights

NIQE_VARIANTS: dict[str, NiqeVariant] = {"niqe": MATLAB, "niqe_skvideo": SCIKIT_VIDEO}
"""By metric."""
FlowChoice = Literal["auto", "raft", "dis"]
PSNR_OF_EQUAL_FRAMES = 100.0
"""Recorded in place of infinity, so that means stay numbers."""


@dataclass(frozen=True)
class FrameToScore:
    """One restored frame with all that its metrics look at."""

    restored: Tensor  # [3, H, W] in [0, 1], rounded to 8 bit
    clear: Tensor | None  # [3, H, W]
    previous: Tensor | None  # [3, H, W], the restored frame before
    flow: Tensor | None  # [2, H, W], to the frame before
    clear_features: list[Tensor] | None
    """LPIPS features of `clear`, computed once for all models."""
    hazy: FrameFacts | None = None
    """What the blind metrics know of the input, computed once for all models; None where they are not wanted."""
    hazy_tof: float | None = None
    """Warped difference of the input to its frame before, where the blind metrics want it."""


@dataclass
class Scores:
    """Prepared metrics, and the time each has taken."""

    metrics: tuple[Metric, ...]
    not_measured: dict[str, str]
    """Reason by metric name."""
    lpips: Lpips | None = None
    flow: FlowEstimator | None = None
    niqe_parameters: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    """By metric: each variant of NIQE has its own."""
    brisque_regression: dict[str, Tensor] | None = None
    musiq: Musiq | None = None
    detector: Detector | None = None
    segmenter: Segmenter | None = None
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def wants(self, name: str) -> bool:
        """Whether this metric was asked for and can be computed."""
        return any(m.name == name for m in self.metrics) and name not in self.not_measured

    def estimators(self) -> dict[str, str]:
        """Name the networks behind the metrics, for the report."""
        parts = {"tof": self.flow, "musiq": self.musiq, "detection": self.detector, "segmentation": self.segmenter}
        named = {key: part.name for key, part in parts.items() if part is not None}
        if self.lpips is not None:
            named["lpips"] = f"LPIPS v0.1 ({self.lpips.backbone})"
        if "niqe" in self.niqe_parameters:
            named["niqe"] = "the authors' parameters and conventions (MATLAB)"
        return named

    def clear_features(self, clear: Tensor | None) -> list[Tensor] | None:
        """Compute the reference's half of LPIPS, once for all models."""
        if clear is None or self.lpips is None or not self.wants("lpips"):
            return None
        return self._timed("lpips", lambda: self.lpips.features(clear))  # type: ignore[union-attr]

    def find_flow(
        self,
        current: np.ndarray,  # [H, W, 3] uint8
        previous: np.ndarray | None,  # [H, W, 3] uint8
    ) -> Tensor | None:  # [2, H, W]
        """Estimate the motion that tOF compensates, once for all models."""
        if previous is None or self.flow is None:
            return None
        return torch.from_numpy(self._timed("tof", lambda: self.flow.estimate(current, previous)))  # type: ignore[union-attr]

    def describe_input(self, hazy: Tensor) -> FrameFacts | None:
        """Prepare the input's half of the blind metrics, once for all models."""
        return FrameFacts(hazy) if any(self.wants(m.name) for m in self.metrics if m.group == "blind") else None

    def input_tof(self, hazy: Tensor, previous: Tensor | None, flow: Tensor | None) -> float | None:
        """Compute the warped difference of the input itself, to which that of the models is compared."""
        if previous is None or flow is None or not self.wants("flicker"):
            return None
        before, motion = previous, flow.to(hazy.device)
        return float(self._timed("tof", lambda: warp_error(hazy, *warp_tensor(before, motion))))

    def measure(self, frame: FrameToScore) -> dict[str, float]:
        """Compute every per-frame metric that applies to this frame."""
        found: dict[str, float] = {}
        restored, clear = frame.restored, frame.clear
        if clear is not None and self.wants("psnr"):
            value = self._timed("psnr", lambda: psnr(restored, clear))
            found["psnr"] = min(value, PSNR_OF_EQUAL_FRAMES)
        if clear is not None and self.wants("ssim"):
            found["ssim"] = self._timed("ssim", lambda: ssim(restored, clear))
        if frame.clear_features is not None and self.lpips is not None:
            lpips, reference = self.lpips, frame.clear_features
            found["lpips"] = self._timed("lpips", lambda: lpips.distance(lpips.features(restored), reference))
        if frame.previous is not None and frame.flow is not None:
            before, flow = frame.previous, frame.flow.to(restored.device)
            found["tof"] = self._timed("tof", lambda: warp_error(restored, *warp_tensor(before, flow)))
        for name, parameters in self.niqe_parameters.items():
            found[name] = self._timed(name, functools.partial(niqe, restored, parameters, NIQE_VARIANTS[name]))
        if self.brisque_regression is not None and self.wants("brisque"):
            regression = self.brisque_regression
            found["brisque"] = self._timed("brisque", lambda: brisque(restored, regression))
        if self.musiq is not None:
            musiq = self.musiq
            found["musiq"] = self._timed("musiq", lambda: musiq.score(restored))
        if self.detector is not None:
            found |= self._timed("detection", lambda: self._detect(restored))
        if self.segmenter is not None:
            found |= self._timed("segmentation", lambda: self._segment(restored))
        wanted = {name for name in found if self.wants(name)} | ({"tof"} if self.wants("flicker") else set())
        found = {name: value for name, value in found.items() if name in wanted}
        if frame.hazy is not None:
            hazy, tof = frame.hazy, frame.hazy_tof
            found |= self._timed("blind", lambda: self._blind(hazy, tof, restored))
        return found

    def _blind(self, hazy: FrameFacts, hazy_tof: float | None, restored: Tensor) -> dict[str, float]:
        """The blind metrics of a frame, and what those of the clip are made of."""
        facts = FrameFacts(restored)
        values = {name: value for name, value in asdict(compare_with_input(hazy, facts)).items() if self.wants(name)}
        series = {
            "mean": facts.mean,
            "mean_input": hazy.mean,
            "contrast": facts.contrast,
            "contrast_input": hazy.contrast,
        }
        return values | series | ({} if hazy_tof is None else {"tof_input": hazy_tof})

    def _detect(self, image: Tensor) -> dict[str, float]:
        assert self.detector is not None
        boxes, scores = self.detector.detect(image)
        m = measure_detections(boxes, scores, width=image.shape[2], height=image.shape[1])
        return {"det": m.count, "conf": m.confidence, "highconf": m.high_confidence, "smallobj": m.small}

    def _segment(self, image: Tensor) -> dict[str, float]:
        assert self.segmenter is not None
        m = measure_segmentation(self.segmenter.segment(image), self.segmenter.classes)
        return {"bdrye": m.boundary, "classh": m.entropy, "numcomp": m.components}

    def _timed(self, name: str, work: Callable):  # type: ignore[no-untyped-def, type-arg]
        start = time.perf_counter()
        result = work()
        self.seconds[name] += time.perf_counter() - start
        return result


def prepare_scores(
    metrics: tuple[Metric, ...],
    *,
    paired: bool,
    smallest: tuple[int, int] = (4096, 4096),
    flow: FlowChoice = "auto",
    detector: Path | None = None,
    segmenter: Path | None = None,
    musiq: Path | None = None,
    cache: Path | None = None,
    device: str = "cpu",
) -> Scores:
    """Load what the metrics need.

    What is missing becomes a reason in `not_measured`, not an error, unless the user asked for it by name.
    """
    scores = Scores(metrics, {})
    for metric in metrics:
        if metric.needs == "reference" and not paired:
            scores.not_measured[metric.name] = "the set has no ground truth"
    if scores.wants("musiq") and musiq is not None:
        scores.musiq = Musiq(read_musiq_weights(musiq), source=musiq.name, device=device)
    elif scores.wants("musiq"):
        scores.not_measured["musiq"] = (
            "no weights given: use --musiq with a file; KonIQ's are at "
            f"https://huggingface.co/chaofengc/IQA-PyTorch-Weights, file {MUSIQ_FILE}"
        )
    for name in NIQE_VARIANTS:
        if scores.wants(name) and min(smallest) < NIQE_LEAST:
            scores.not_measured[name] = (
                f"NIQE needs frames of at least {NIQE_LEAST}x{NIQE_LEAST}, "
                f"the smallest clip is {smallest[0]}x{smallest[1]}"
            )
    if scores.wants("lpips") and (state := _weights(scores, "lpips", cache)):
        scores.lpips = Lpips(state, device=device)
    for name in NIQE_VARIANTS:
        if scores.wants(name) and (parameters := _weights(scores, name, cache)):
            scores.niqe_parameters[name] = parameters
    if scores.wants("brisque"):
        scores.brisque_regression = _weights(scores, "brisque", cache)
    if scores.wants("tof") or scores.wants("flicker"):
        scores.flow = _choose_flow(flow, cache, device)
    _prepare_perception(scores, detector, segmenter, cache, device)
    return scores


def _prepare_perception(
    scores: Scores, detector: Path | None, segmenter: Path | None, cache: Path | None, device: str
) -> None:
    detection = [m.name for m in scores.metrics if m.needs == "detector"]
    segmentation = [m.name for m in scores.metrics if m.needs == "segmenter"]
    if detection and detector is not None:
        scores.detector = open_detector(detector, device, cache=cache)
    elif detection:
        reason = (
            "no detector given: use --detector with yolov8n, yolov8s or fastestdet from the cache, or with a file; "
            f"the paper's is yolov8x ({find_model('yolov8x').source})"
        )
        scores.not_measured |= dict.fromkeys(detection, reason)
    if segmentation and segmenter is not None:
        scores.segmenter = open_segmenter(segmenter, device)
    elif segmentation:
        source = find_model("segformer-b5").source
        reason = f"no segmenter given: use --segmenter with a folder; the paper's is segformer-b5 ({source})"
        scores.not_measured |= dict.fromkeys(segmentation, reason)


def _weights(scores: Scores, metric: str, cache: Path | None) -> dict[str, Tensor] | None:
    name = find_metric(metric).weights
    assert name is not None
    try:
        return load_weights(find_model(name), cache)
    except LibraNetError as error:
        scores.not_measured[metric] = str(error)
        return None


def _choose_flow(choice: FlowChoice, cache: Path | None, device: str) -> FlowEstimator:
    raft = find_model("raft-small")
    if choice == "dis" or (choice == "auto" and find_weights(raft, cache) is None):
        return DisFlow()
    if find_weights(raft, cache) is None:
        raise CheckpointError(explain_absence(raft))
    return RaftFlow(RaftSmall.from_weights(load_weights(raft, cache), device=device))
