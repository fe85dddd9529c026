"""The variants of a study: a folder with `full.toml` and recipes that each extend it by what they are about."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from libranet.errors import InputError, LibraNetError
from libranet.losses.objective import LossConfig, Objective
from libranet.training.config import TrainConfig
from libranet.training.recipe import load_recipe, load_variant

FULL = "full"
Group = Literal["architecture", "supervision", "temporal", "own"]


@dataclass(frozen=True)
class PaperRow:
    """One row of the paper's ablation tables, as reported."""

    group: Group  # which part of the tables it is in; the Temporal Field is in two
    title: str
    uhv4k: tuple[float, float, float] | None = None  # PSNR, SSIM and LPIPS on UHV-4K
    revide: tuple[float, float, float] | None = None  # the same on REVIDE
    temporal: tuple[float, float, float] | None = None  # tOF, σ-PSNR and PSNR on UHV-4K


PAPER_ROWS: dict[str, PaperRow] = {
    FULL: PaperRow(
        "architecture", "Full model", (24.28, 0.9437, 0.0401), (21.43, 0.8678, 0.2397), (0.004769, 0.66, 24.28)
    ),
    "no-chromatic-field": PaperRow(
        "architecture", "w/o Chromatic Field", (22.02, 0.9074, 0.0792), (20.43, 0.8594, 0.2639)
    ),
    "no-temporal-field": PaperRow(
        "architecture", "w/o Temporal Field", (22.09, 0.9111, 0.0786), (20.42, 0.8579, 0.2617), (0.004800, 0.99, 22.09)
    ),
    "no-refiner": PaperRow("architecture", "w/o HF-Refiner", (20.87, 0.8119, 0.2456), (18.84, 0.8147, 0.4182)),
    "no-cayley": PaperRow("architecture", "w/o Cayley map", (21.69, 0.9035, 0.0823), (20.81, 0.8623, 0.2567)),
    "no-adaptive-slicing": PaperRow(
        "architecture", "w/o resolution-adaptive slicing", (21.01, 0.8708, 0.1264), (20.61, 0.8557, 0.2695)
    ),
    "no-perceptual": PaperRow("supervision", "w/o perceptual term", (21.66, 0.9075, 0.0838), (20.85, 0.8596, 0.2765)),
    "no-lie": PaperRow("supervision", "w/o Lie term", (21.87, 0.9117, 0.0748), (20.58, 0.8588, 0.2600)),
    "pixel-only": PaperRow("supervision", "pixel term only", (22.12, 0.9119, 0.0805), (20.57, 0.8574, 0.2811)),
    "vgg19": PaperRow("supervision", "VGG-19 perceptual term", (22.73, 0.9228, 0.0660), (20.78, 0.8631, 0.2674)),
    "vgg16": PaperRow("supervision", "VGG-16 perceptual term"),  # the paper has VGG-19 alone
    "no-lie-temporal": PaperRow("temporal", "w/o temporal Lie term", temporal=(0.004396, 0.95, 22.31)),
}


@dataclass(frozen=True)
class Variant:
    """One recipe of the study."""

    name: str
    config: TrainConfig
    changes: dict[str, str]  # its settings that differ from the full recipe, by dotted name
    same_as: str = ""
    """An earlier variant with the very same settings, which stands for this one; empty if there is none."""
    not_run: str = ""  # why it cannot be trained here; empty if it can

    @property
    def paper(self) -> PaperRow:
        """What the paper reports; a recipe of the user's own has a row without values."""
        return PAPER_ROWS.get(self.name) or PaperRow("own", self.name)

    @property
    def trained(self) -> bool:
        """Whether it has runs of its own."""
        return not (self.same_as or self.not_run)


def load_variants(folder: Path, *, overrides: Sequence[str] = (), only: Sequence[str] = ()) -> list[Variant]:
    """Read the recipes of a study, the full one first, and find out which can be trained.

    Args:
        overrides: Changes to the full recipe, `key=value` each; what a variant names itself stays.
    """
    base = folder / f"{FULL}.toml"
    if not base.is_file():
        raise InputError(f"expected {base}, the recipe that all variants extend: no ablation study is in {folder}")
    found = {path.stem: path for path in sorted(folder.glob("*.toml")) if path != base}
    if unknown := [name for name in only if name not in (FULL, *found)]:
        raise InputError(f"no variant is called {unknown[0]!r}: expected names of {', '.join([FULL, *found])}")
    order = {name: place for place, name in enumerate(PAPER_ROWS)}
    names = sorted((name for name in found if not only or name in only), key=lambda name: order.get(name, len(order)))

    reasons: dict[LossConfig, str] = {}
    variants = [Variant(FULL, load_recipe(base, overrides), {})]
    full = flat_settings(variants[0].config)
    if reason := _why_not_trained(variants[0].config, reasons):
        raise InputError(
            f"the full recipe cannot be trained here: {reason}. With --set loss.perceptual=none, or with vgg16 and "
            "--set loss.perceptual_source=PATH, the whole study is done with that instead"
        )
    for name in names:
        config = load_variant(found[name], base, overrides)
        twin = next((other.name for other in variants if other.trained and same_run(config, other.config)), "")
        changes = {k: v for k, v in flat_settings(config).items() if k != "name" and full.get(k) != v}
        variants.append(Variant(name, config, changes, twin, "" if twin else _why_not_trained(config, reasons)))
    return variants


def same_run(first: TrainConfig, second: TrainConfig) -> bool:
    """Whether two recipes compute the same. Settings of a perceptual term that is off do not count."""
    return _what_counts(first) == _what_counts(second)


def flat_settings(config: TrainConfig) -> dict[str, str]:
    """All settings of a recipe by dotted name, as text."""
    return {key: str(value) for key, value in _flatten(dataclasses.asdict(config))}


def _what_counts(config: TrainConfig) -> TrainConfig:
    loss = config.loss
    if loss.perceptual == "none":
        loss = dataclasses.replace(loss, perceptual_source="", perceptual_weight=0.0)
    return dataclasses.replace(config, name="", loss=loss)


def _why_not_trained(config: TrainConfig, known: dict[LossConfig, str]) -> str:
    """Why the objective has no weights here; empty if it has. A term of the same weights is tried once."""
    c = config.loss
    key = LossConfig(perceptual=c.perceptual, perceptual_source=c.perceptual_source, perceptual_taps=c.perceptual_taps)
    if key not in known:
        try:
            Objective(key, torch.device("cpu"))
            known[key] = ""
        except LibraNetError as error:
            known[key] = str(error)
    return known[key]


def _flatten(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        pairs += _flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return pairs
