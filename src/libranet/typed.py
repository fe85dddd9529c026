"""Values held to their annotations: what a program or a file gives is checked before anything computes with it."""

import dataclasses
import numbers
import os
import types
import typing
from typing import Any

from libranet.errors import InputError


def check_types(config: Any) -> None:
    """Hold every field of a frozen dataclass to its annotation. Call it first in `__post_init__`.

    Integers become floats where floats are expected, lists become tuples, and numbers of NumPy those of Python.
    """
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        object.__setattr__(config, field.name, checked(field.name, hints[field.name], value))


def checked(name: str, hint: Any, value: Any) -> Any:
    """Return a value in the type that an annotation names."""
    try:
        return _converted(hint, value)
    except (TypeError, ValueError, OverflowError):
        shown = repr(value)
        shown = f"{shown[:60]}..." if len(shown) > 60 else shown
        raise InputError(f"expected {name} as {_words(hint)}, got {shown}") from None


def _converted(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return _first(tuple(option for option in arguments if option is not type(None)), value)
    if origin is typing.Literal:
        _require(isinstance(value, str | int) and value in arguments)
        return value
    if origin is tuple:
        _require(isinstance(value, tuple | list))
        if arguments[-1] is Ellipsis:
            return tuple(_converted(arguments[0], item) for item in value)
        return tuple(_converted(kind, item) for kind, item in zip(arguments, value, strict=True))
    if hint in (int, float):
        kind = numbers.Integral if hint is int else numbers.Real
        _require(isinstance(value, kind) and not isinstance(value, bool))
        return hint(value)
    if hint is bool:
        _require(type(value).__name__ in ("bool", "bool_"))  # NumPy's own is no `bool`
        return bool(value)
    if hint is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    _require(isinstance(value, hint))
    return value


def _first(options: tuple[Any, ...], value: Any) -> Any:
    for option in options[:-1]:
        try:
            return _converted(option, value)
        except (TypeError, ValueError):
            continue
    return _converted(options[-1], value)


def _require(fits: bool) -> None:
    if not fits:
        raise TypeError


def _words(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_words(option) for option in arguments if option is not type(None))
    if origin is typing.Literal:
        return f"{', '.join(map(str, arguments[:-1]))} or {arguments[-1]}"
    if origin is tuple:
        return f"a tuple of {_words(arguments[0])}"
    names = {int: "a whole number", float: "a number", str: "a string", bool: "True or False"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))
