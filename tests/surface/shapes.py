"""Layouts of records and of JSON, as lines `path: type`.

`[]` is a list, `{}` a mapping with arbitrary keys, and `?` a value that may be None or missing.
"""

import dataclasses
import types
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from surface.annotations import type_text, value_text

_LISTS = (list, tuple, set, frozenset)


def declared(kind: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each value of a record type, with its default."""
    for name, inner, default in _fields(kind):
        yield from _declared(inner, f"{path}.{name}" if path else name, default)


def found(value: Any, keyed: AbstractSet[str] = frozenset()) -> list[str]:
    """Return a line for each path in a JSON value, with all types of its values.

    Args:
        value: JSON value.
        keyed: Paths of mappings with arbitrary keys, such as file names.
    """
    types_at = dict[str, set[str]]()
    for path, kind in _found(value, "", keyed):
        types_at.setdefault(path, set()).add(kind)
    return [f"{path or '.'}: {' | '.join(sorted(kinds))}" for path, kinds in types_at.items()]


def _declared(kind: Any, path: str, default: str) -> Iterator[str]:
    if get_origin(kind) in (Union, types.UnionType):
        members = [each for each in get_args(kind) if each is not types.NoneType]
        if any(_is_compound(each) for each in members):
            mark = "?" if types.NoneType in get_args(kind) else ""
            for each in members:
                yield from _declared(each, f"{path}{mark}", default)
            return
    arguments = get_args(kind)
    if _fields(kind):
        yield from declared(kind, path)
    elif get_origin(kind) in _LISTS and any(_is_compound(each) for each in arguments):
        for each in arguments:
            if each is not Ellipsis:
                yield from _declared(each, f"{path}[]", "")
    elif _is_mapping(kind) and _is_compound(arguments[1]):
        yield from _declared(arguments[1], f"{path}{{}}", "")
    elif _is_annotated(kind):
        yield from _declared(arguments[0], path, default)
    else:
        yield f"{path}: {type_text(kind)}{default}"


def _is_compound(kind: Any) -> bool:
    """Return whether a type contains a record type."""
    return bool(_fields(kind)) or any(map(_is_compound, get_args(kind)))


def _is_mapping(kind: Any) -> bool:
    return isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping)


def _is_annotated(kind: Any) -> bool:
    return hasattr(kind, "__metadata__")


def _fields(kind: Any) -> list[tuple[str, Any, str]]:
    """Return the name, type and default of each field of a record type; empty for other types."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [
            (name, field.annotation, _default(field.default, PydanticUndefined))
            for name, field in kind.model_fields.items()
        ]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return [
            (field.name, hints[field.name], _default(field.default, dataclasses.MISSING))
            for field in dataclasses.fields(kind)
        ]
    return []


def _default(value: Any, none: object) -> str:
    return "" if value is none else f" = {value_text(value)}"


def _found(value: Any, path: str, keyed: AbstractSet[str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            inner = f"{path}{{}}" if path in keyed else f"{path}.{key}" if path else key
            yield from _found(each, inner, keyed)
        if not value:
            yield path, "{}"
    elif isinstance(value, list):
        for each in value:
            yield from _found(each, f"{path}[]", keyed)
        if not value:
            yield path, "[]"
    else:
        yield path, "null" if value is None else type(value).__name__
