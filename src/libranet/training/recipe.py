"""Recipes: TOML files whose tables mirror the dataclasses of `config.py`, with overrides from the command line.

A recipe may extend another: `extends = "other.toml"`, relative to its own folder, takes over all settings of that
recipe and changes those it names.
"""

import dataclasses
import logging
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from libranet.errors import InputError
from libranet.training.config import TrainConfig

logger = logging.getLogger(__name__)

T = TypeVar("T")

OLD_KEYS = {
    "loss.steady_weight": "loss.consistency_weight",
    "photos.haze.footage.front_probability": "photos.haze.front.probability",
    "photos.haze.footage.front_elsewhere_probability": "photos.haze.front.elsewhere_probability",
    "photos.haze.footage.change_probability": "photos.haze.front.change_probability",
    "photos.haze.footage.bars_probability": "photos.haze.front.bars_probability",
    "photos.haze.beta": "photos.haze.density.beta",
    "photos.haze.near": "photos.haze.density.near",
    "photos.haze.gamma": "photos.haze.density.depth_gamma",
    "photos.haze.floor": "photos.haze.density.min_transmission",
    "photos.haze.wavelength": "photos.haze.density.wavelength_spread",
    "photos.haze.clear": "photos.haze.density.clear_probability",
    "photos.haze.even": "photos.haze.density.uniform_probability",
    "photos.haze.patches": "photos.haze.density.patch_probability",
    "photos.haze.patch_strength": "photos.haze.density.patch_strength",
    "photos.haze.airlight": "photos.haze.airlight.brightness",
    "photos.haze.even_airlight": "photos.haze.airlight.uniform_brightness",
    "photos.haze.scene_light": "photos.haze.airlight.scene_probability",
    "photos.haze.tint": "photos.haze.airlight.tint_std",
    "photos.haze.light_gradient": "photos.haze.airlight.gradient",
    "photos.haze.noise": "photos.haze.camera.noise_std",
    "photos.haze.dull": "photos.haze.camera.dull_probability",
    "photos.haze.vary": "photos.haze.camera.jitter_probability",
    "photos.haze.vary_by": "photos.haze.camera.jitter_strength",
    "photos.haze.cast": "photos.haze.camera.white_balance_std",
    "photos.haze.shade": "photos.haze.camera.shading",
    "photos.haze.in_light": "photos.haze.camera.linear_light_probability",
    "photos.haze.tone_curve": "photos.haze.camera.tone_gamma",
    "photos.haze.skies": "photos.haze.sky.recolour_probability",
    "photos.haze.swap": "photos.haze.sky.swap_probability",
    "photos.haze.overcast": "photos.haze.sky.fog_probability",
    "photos.haze.zoom": "photos.haze.geometry.zoom",
    "photos.haze.squeeze": "photos.haze.geometry.aspect_jitter",
    "photos.haze.motion": "photos.haze.geometry.motion",
    "photos.haze.still": "photos.haze.geometry.still_probability",
    "photos.haze.prior": "photos.haze.geometry.prior_depth_probability",
    "photos.haze.blend": "photos.haze.geometry.prior_depth_blend",
    "photos.haze.regimes": "photos.haze.regimes.probability",
    "photos.haze.regime_spread": "photos.haze.regimes.jitter",
    "photos.haze.leftover": "photos.haze.residual.probability",
    "photos.haze.leftover_beta": "photos.haze.residual.max_beta",
}
"""Names of settings before 0.2, and what they are called now. Recipes and states of runs may still have them."""

REMOVED_KEYS: dict[str, Any] = {
    "photos.haze.regime_gamma": [1.0, 1.0],
    "photos.haze.regime_blend": 0.0,
    "photos.haze.tilt": 0.0,
    "photos.scene_share": 0.25,
    "validation.limit": 0,
}
"""Settings that are gone, and the value at which they did nothing. Any other value is refused."""


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a recipe.

    Args:
        path: A TOML file.
        overrides: `key=value` each; nested keys have dots, values are written as in TOML.

    Raises:
        InputError: There is no such file, it is not TOML, or a setting is unknown or has a wrong value.
    """
    return build(TrainConfig, _override(_read(Path(path), ()), overrides), where=str(path))


def load_variant(path: str | Path, base: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a recipe that extends another one, after changes to that other one.

    Args:
        path: A TOML file with `extends`.
        base: The recipe that it extends.
        overrides: Changes to `base`, as `load_recipe` takes them; what the variant itself says stays.

    Raises:
        InputError: The recipe extends another one than `base`, or cannot be read as `load_recipe` says.
    """
    path, base = Path(path), Path(base)
    own, extended = _parse(path, ())
    if extended is None or extended.resolve() != base.resolve():
        raise InputError(f"expected {path} to extend {base}, so that the two differ in what it names")
    return build(TrainConfig, _merge(_override(_read(base, ()), overrides), own), where=str(path))


def rename_old_keys(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Bring settings to their present names.

    Returns:
        The settings, and the old names that were found among them.
    """
    renamed: dict[str, Any] = {}
    found: list[str] = []
    for name, value in _flatten(raw):
        if name in OLD_KEYS or value == REMOVED_KEYS.get(name, ...):
            found.append(name)
        if value != REMOVED_KEYS.get(name, ...):
            renamed = _merge(renamed, _nest(OLD_KEYS.get(name, name), value))
    return renamed, found


def build(cls: type[T], raw: Mapping[str, Any], *, where: str) -> T:
    """Make a dataclass from a table. Unknown names and wrong types are refused by name."""
    hints = typing.get_type_hints(cls)
    known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(raw) - known):
        raise InputError(f"{where} has unknown setting {unknown[0]!r}: expected one of {', '.join(sorted(known))}")
    values = {name: _convert(hints[name], value, f"{where}: {name}") for name, value in raw.items()}
    try:
        return cls(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _override(raw: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    for override in overrides:
        raw = _merge(raw, _with_new_names(_parse_override(override), where=f"--set {override}"))
    return raw


def _read(path: Path, extended_by: tuple[Path, ...]) -> dict[str, Any]:
    """The settings of a recipe and of those it extends."""
    own, base = _parse(path, extended_by)
    return own if base is None else _merge(_read(base, (*extended_by, path)), own)


def _parse(path: Path, extended_by: tuple[Path, ...]) -> tuple[dict[str, Any], Path | None]:
    """The settings that a recipe itself names, and the recipe that it extends."""
    if not path.is_file():
        asked = f", which {extended_by[-1]} extends" if extended_by else ""
        raise InputError(f"no recipe at {path}{asked}: give a TOML file, for example recipes/smoke.toml")
    if path.resolve() in [other.resolve() for other in extended_by]:
        raise InputError(f"{path} extends itself: {' -> '.join(map(str, (*extended_by, path)))}")
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML: {error}") from None
    base = raw.pop("extends", None)
    raw = _with_new_names(raw, where=str(path))
    if base is not None and not isinstance(base, str):
        raise InputError(f"{path}: extends must be the path of a recipe, got {base!r}")
    return raw, None if base is None else path.parent / base


def _with_new_names(raw: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    renamed, old = rename_old_keys(raw)
    if removed := [name for name, _ in _flatten(renamed) if name in REMOVED_KEYS]:
        raise InputError(f"{where}: {removed[0]} was removed, no recipe used it: leave it out")
    if old:
        names = ", ".join(f"{name} is now {OLD_KEYS[name]}" if name in OLD_KEYS else f"{name} is gone" for name in old)
        logger.warning("%s has old names of settings, which the next version will refuse: %s", where, names)
    return renamed


def _parse_override(override: str) -> dict[str, Any]:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise InputError(f"expected --set key=value, got {override!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    return _nest(key.strip(), value)


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All settings with their dotted names; an empty table is one of them."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _nest(name: str, value: Any) -> dict[str, Any]:
    for key in reversed(name.split(".")):
        value = {key: value}
    return value


def _merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged; any other value replaces the one before."""
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Check a TOML value against a type annotation, turning tables into dataclasses and arrays into tuples."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (hint,) = (option for option in arguments if option is not type(None))
        return _convert(hint, value, where)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise InputError(f"{where} must be a table, got {value!r}")
        return build(typing.cast(type, hint), value, where=where)
    if origin is typing.Literal:
        if value not in arguments:
            raise InputError(f"{where} must be one of {', '.join(map(str, arguments))}, got {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise InputError(f"{where} must be a list, got {value!r}")
        if arguments[-1] is Ellipsis:
            return tuple(_convert(arguments[0], item, where) for item in value)
        if len(value) != len(arguments):
            raise InputError(f"{where} must have {len(arguments)} values, got {len(value)}")
        return tuple(_convert(kind, item, where) for kind, item in zip(arguments, value, strict=True))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not hint:
        raise InputError(f"{where} must be {hint.__name__}, got {value!r}")
    return value
