"""Recipes: TOML files whose tables mirror the dataclasses of `config.py`, with overrides from the command line."""

import dataclasses
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from libranet.errors import InputError
from libranet.training.config import TrainConfig

T = TypeVar("T")


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a recipe and apply `key=value` overrides; nested keys have dots, values are written as in TOML."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no recipe at {path}: give a TOML file, for example recipes/smoke.toml")
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML: {error}") from None
    for override in overrides:
        _apply(raw, override)
    return build(TrainConfig, raw, where=str(path))


def _apply(raw: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise InputError(f"expected --set key=value, got {override!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    *parents, last = key.strip().split(".")
    table = raw
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise InputError(f"--set {override}: {parent} is a value, not a table")
    table[last] = value


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
