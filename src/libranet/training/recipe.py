"""Recipes: TOML files whose tables mirror the dataclasses of `config.py`, with overrides from the command line.

A recipe may extend another: `extends = "other.toml"`, relative to its own folder, takes over all settings of that
recipe and changes those it names.
"""

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from libranet.errors import InputError
from libranet.network.checkpoint import find_checkpoint, read_checkpoint_info
from libranet.training.config import TrainConfig

T = TypeVar("T")


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a recipe.

    Args:
        overrides: `key=value` each; nested keys have dots, values are written as in TOML.

    Raises:
        InputError: There is no such file, it is not TOML, or a setting is unknown or has a wrong value.
    """
    return _with_own_model(_override(_read(Path(path), ()), overrides), where=str(path))


def load_variant(path: str | Path, base: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a recipe that extends another one, after changes to that other one.

    Args:
        overrides: Changes to `base`, as `load_recipe` takes them; what the variant itself says stays.
    """
    path, base = Path(path), Path(base)
    own, extended = _parse(path, ())
    if extended is None or extended.resolve() != base.resolve():
        raise InputError(f"expected {path} to extend {base}, so that the two differ in what it names")
    return _with_own_model(_merge(_override(_read(base, ()), overrides), own), where=str(path))


def _with_own_model(raw: Mapping[str, Any], *, where: str) -> TrainConfig:
    """The recipe; one that begins from a checkpoint and has no [model] trains that checkpoint's network."""
    config = _build(TrainConfig, raw, where=where)
    if not config.init_from or config.peer or "model" in raw:
        return config
    return dataclasses.replace(config, model=read_checkpoint_info(find_checkpoint(config.init_from)).config)


def _build(cls: type[T], raw: Mapping[str, Any], *, where: str) -> T:
    """Make a dataclass from a table. Unknown names and wrong types are refused by name."""
    hints = typing.get_type_hints(cls)
    known = {f.name: f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(set(raw) - set(known)):
        # A setting of a group may have been written one level too high.
        inner = {f.name: f"{name}.{f.name}" for name in known for f in _fields_of_group(hints[name])}
        (nearest,) = difflib.get_close_matches(unknown[0], inner | known, n=1, cutoff=0.0)
        raise InputError(
            f"{where} has unknown setting {unknown[0]!r}: did you mean {(inner | known)[nearest]!r}? "
            f"Known are {', '.join(known)}"
        )
    values = {name: _convert(hints[name], value, f"{where}: {name}") for name, value in raw.items()}
    try:
        return cls(**values)
    except InputError as error:
        raise InputError(f"{where}: {error.sentence}") from None


def _fields_of_group(hint: Any) -> tuple[dataclasses.Field[Any], ...]:
    """The settings of a group; none for a single value."""
    return dataclasses.fields(hint) if dataclasses.is_dataclass(hint) else ()


def _override(raw: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise InputError(f"expected --set key=value, got {override!r}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()  # a bare word is a string
        for name in reversed(key.strip().split(".")):
            value = {name: value}
        raw = _merge(raw, value)
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
    if base is not None and not isinstance(base, str):
        raise InputError(f"{path}: extends must be the path of a recipe, got {base!r}")
    return raw, None if base is None else path.parent / base


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
        return _build(typing.cast(type, hint), value, where=where)
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
