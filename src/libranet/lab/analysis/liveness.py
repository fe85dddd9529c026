"""Is every part of the network alive on this data?"""

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from libranet.lab.analysis.observation import Observation
from libranet.lab.analysis.plotting import BLUE, GREY, new_figure
from libranet.network import LiBrANet
from libranet.network.liveness import MIN_LIVE, live_units

MIN_REACHED = 0.8
"""Share of parameters with a gradient under which a part counts as dead. A few never have one, such as key biases."""
_WINDOWS = 8


class LivenessProbe:
    """Keeps some windows of different frames, at the size of the encoders, and probes the network with them."""

    def __init__(self, model: LiBrANet) -> None:
        self._model = model
        self._windows: list[Tensor] = []
        self._result: dict[str, Any] | None = None

    def add(self, seen: Observation) -> None:
        if len(self._windows) < _WINDOWS:
            self._windows.append(seen.window)

    def result(self) -> dict[str, Any]:
        if self._result is None:
            self._result = self._measure()
        return self._result

    def figure(self) -> Figure | None:
        result = self.result()
        if "not_measured" in result:
            return None
        shares = {f"live units, {name}": value for name, value in result["live_units"].items()}
        shares["parameters with a gradient"] = result["gradient_share"]
        figure = new_figure(6.0, 0.7 + 0.4 * len(shares) + 0.2 * len(result["dead"]))
        axes = figure.subplots()
        places = range(len(shares))
        axes.barh(places, list(shares.values()), color=BLUE)
        axes.set_yticks(places, list(shares), fontsize=8)
        axes.set(xlim=(0, 1), xlabel="share", title="\n".join(result["dead"]) or "every part is alive")
        axes.title.set_fontsize(9)
        axes.axvline(MIN_LIVE, color=GREY, linestyle=":")
        axes.invert_yaxis()
        return figure

    def _measure(self) -> dict[str, Any]:
        if not self._windows:
            return {"not_measured": "no frames"}
        model, windows = self._model, torch.cat(self._windows)
        units = live_units(model, windows)
        share = gradient_share(model, windows[:1])
        effect = None
        if model.temporal is not None and len(windows) > 1:
            effect = sum(neighbour_effect(model, windows[[i, i - 1]]) for i in range(len(windows))) / len(windows)
        dead = [f"the {name} field is dead" for name, value in units.items() if value < MIN_LIVE]
        if effect == 0.0 and "the temporal field is dead" not in dead:
            dead.append("the temporal field is dead")
        if share < MIN_REACHED:
            dead.append("the error does not reach every part")
        return {
            "windows": len(windows),
            "live_units": units,
            "gradient_share": share,
            "neighbour_effect_in_levels_of_255": effect,
            "dead": dead,
        }


@torch.no_grad()
def neighbour_effect(model: LiBrANet, frames: Tensor) -> float:  # [B, T, 3, H, W] in [0, 1], B at least 2
    """Mean change of the output, in levels of 255, when the neighbours come from the next window of the batch."""
    middle = frames.shape[1] // 2
    wrong = frames.roll(1, 0)
    wrong[:, middle] = frames[:, middle]
    return float((model(frames) - model(wrong)).abs().mean()) * 255


def gradient_share(model: LiBrANet, frames: Tensor) -> float:  # [B, T, 3, H, W] in [0, 1]
    """The share of the parameters that the output's error reaches: those with a gradient that is not zero."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with torch.enable_grad():
        error = (model.predict(frames).image - frames[:, frames.shape[1] // 2]).square().mean()
        gradients = torch.autograd.grad(error, parameters, allow_unused=True)
    reached = sum(int(gradient.count_nonzero()) for gradient in gradients if gradient is not None)
    return reached / sum(parameter.numel() for parameter in parameters)
