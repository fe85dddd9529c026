"""The metrics of one run, prepared once: weights loaded, estimators chosen, reasons for what is not measured."""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from libranet.errors import CheckpointError, LibraNetError
from libranet.evaluation.clips import EvalFrame
from libranet.evaluation.metric_table import Metric
from libranet.extension import lab
from libranet.flow import DisFlow, FlowEstimator, RaftFlow, RaftSmall, warp_tensor
from libranet.metrics.blind import FrameFacts, compare_with_input
from libranet.metrics.fidelity import psnr, ssim
from libranet.metrics.lpips import Lpips
from libranet.metrics.temporal import warp_error
from libranet.thirdparty import explain_absence, find_model, find_weights, load_weights

FlowChoice = Literal["auto", "raft", "dis"]
PSNR_OF_EQUAL_FRAMES = 100.0  # recorded in place of infinity, so that means stay numbers


class ImageMetric(Protocol):
    """A metric of the laboratory that looks at one restored frame."""

    name: str  # what stands behind it, for reports; empty where there is nothing to say

    def measure(self, image: Tensor) -> dict[str, float]:  # [3, H, W] in [0, 1]
        """Compute the metrics of a frame, by name."""
        ...


@dataclass(frozen=True)
class SharedFacts:
    """What the metrics of all models know of one frame, computed once."""

    clear: Tensor | None = None  # [3, H, W]
    flow: Tensor | None = None  # [2, H, W], to the frame before
    clear_features: list[Tensor] | None = None  # for LPIPS
    hazy: FrameFacts | None = None  # for the blind metrics
    hazy_tof: float | None = None
    """Warped difference of the input to its frame before, to which that of the models is compared."""
    clip: str = ""  # whose frame it is


@dataclass
class Scores:
    """Prepared metrics, and the time each has taken."""

    metrics: tuple[Metric, ...]
    not_measured: dict[str, str] = field(default_factory=dict)  # reason by metric name
    by_image: dict[str, Callable[[Tensor], dict[str, float]]] = field(default_factory=dict)
    """Metrics of the restored frame alone, by what `seconds` calls them."""
    estimators: dict[str, str] = field(default_factory=dict)
    """The networks behind the metrics, for the report."""
    lpips: Lpips | None = None
    objects: Callable[[str, Tensor], dict[str, float]] | None = None
    """What a detector finds of the objects that are known to be in a clip, by its name."""
    flow: FlowEstimator | None = None
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def wants(self, name: str) -> bool:
        """Whether this metric was asked for and can be computed."""
        return any(m.name == name for m in self.metrics) and name not in self.not_measured

    def share(self, frame: EvalFrame, before: EvalFrame | None) -> SharedFacts:
        """Compute what the metrics of all models need of a frame and the one before it."""
        clear, hazy, flow, tof = frame.clear, frame.hazy, None, None
        if before is not None and self.flow is not None:
            estimate = partial(self.flow.estimate, frame.guide, before.guide)
            flow = torch.from_numpy(self._timed("tof", estimate)).to(hazy.device)
            if self.wants("flicker"):
                tof = self._timed("tof", warp_error, hazy, *warp_tensor(before.hazy, flow))
        features = self._timed("lpips", self.lpips.features, clear) if self.lpips and clear is not None else None
        blind = any(self.wants(metric.name) for metric in self.metrics if metric.group == "blind")
        return SharedFacts(
            clear, flow, features, FrameFacts(hazy) if blind else None, tof, frame.clip.name if frame.clip else ""
        )

    def measure(
        self,
        restored: Tensor,  # [3, H, W] in [0, 1], 8-bit values
        previous: Tensor | None,  # [3, H, W], the restored frame before
        facts: SharedFacts,
    ) -> dict[str, float]:
        found: dict[str, float] = {}
        if facts.clear is not None and self.wants("psnr"):
            found["psnr"] = min(self._timed("psnr", psnr, restored, facts.clear), PSNR_OF_EQUAL_FRAMES)
        if facts.clear is not None and self.wants("ssim"):
            found["ssim"] = self._timed("ssim", ssim, restored, facts.clear)
        if facts.clear_features is not None and self.lpips is not None:
            features = self._timed("lpips", self.lpips.features, restored)
            found["lpips"] = self._timed("lpips", self.lpips.distance, features, facts.clear_features)
        if previous is not None and facts.flow is not None:
            warped = self._timed("tof", warp_tensor, previous, facts.flow)
            found["tof"] = self._timed("tof", warp_error, restored, *warped)
        for name, measure in self.by_image.items():
            values = self._timed(name, measure, restored)
            found |= {metric: value for metric, value in values.items() if self.wants(metric)}
        if self.objects is not None:
            found |= self._timed("objects", self.objects, facts.clip, restored)
        if facts.hazy is not None:
            found |= self._timed("blind", self._blind, facts.hazy, facts.hazy_tof, restored)
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

    def _timed(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        start = time.perf_counter()
        result = work(*given)
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
    scores = Scores(metrics)
    for metric in metrics:
        if metric.needs == "reference" and not paired:
            scores.not_measured[metric.name] = "the set has no ground truth"
        elif min(smallest) < metric.least:
            scores.not_measured[metric.name] = (
                f"{metric.label} needs frames of at least {metric.least}x{metric.least}, "
                f"the smallest clip is {smallest[0]}x{smallest[1]}"
            )
        elif metric.weights is not None:
            try:
                weights = load_weights(find_model(metric.weights), cache)
            except LibraNetError as error:
                scores.not_measured[metric.name] = str(error)
                continue
            if metric.name == "lpips":
                scores.lpips = Lpips(weights, device=device)
                scores.estimators["lpips"] = f"LPIPS v0.1 ({scores.lpips.backbone})"
            else:
                _add(scores, metric.name, lab("perception.no_reference").NoReference(metric.name, weights))
    if scores.wants("tof") or scores.wants("flicker"):
        scores.flow = _choose_flow(flow, cache, device)
        scores.estimators["tof"] = scores.flow.name
    for need, place in (("musiq", musiq), ("detector", detector), ("segmenter", segmenter)):
        names = [metric.name for metric in metrics if metric.needs == need]
        if names and place is not None:
            network = lab("perception.measures").open_metric(need, place, device=device, cache=cache)
            _add(scores, _REPORTED[need], network)
        elif names:
            scores.not_measured |= dict.fromkeys(names, lab("perception.measures").why_missing(need))
    return scores


_REPORTED = {"musiq": "musiq", "detector": "detection", "segmenter": "segmentation"}
"""What reports call the networks that options name."""


def _add(scores: Scores, name: str, metric: ImageMetric) -> None:
    scores.by_image[name] = metric.measure
    if metric.name:
        scores.estimators[name] = metric.name


def _choose_flow(choice: FlowChoice, cache: Path | None, device: str) -> FlowEstimator:
    raft = find_model("raft-small")
    if choice == "dis" or (choice == "auto" and find_weights(raft, cache) is None):
        return DisFlow()
    if find_weights(raft, cache) is None:
        raise CheckpointError(explain_absence(raft))
    return RaftFlow(RaftSmall.from_weights(load_weights(raft, cache), device=device))
