"""Conversion of records to JSON and back, validated by the types of their fields.

text = to_json(request, version=1)
request = from_json(Request, text, file=path, version=1)
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from headrace.errors import ConfigError, reason_of

T = TypeVar("T")

_DAMAGED: Final = "it is damaged or truncated, not complete JSON"
_CHARACTERS: Final = 60
"""Max characters of an invalid value in a message."""

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def recorded(dataclass: type[T]) -> type[T]:
    """Decorate a dataclass: unknown fields are an error when it is read."""
    mark: Callable[[type[T]], type[T]] = with_config(ConfigDict(extra="forbid"))
    return mark(dataclass)


def to_dict(record: Any) -> Any:
    """Return a record, or a mapping of records, as JSON values."""
    return _adapter(type(record)).dump_python(record, mode="json")


def to_json(record: Any, *, version: int, indent: int | None = None) -> str:
    """Return a record as JSON; the version of the layout is the first field."""
    return json.dumps({"version": version, **to_dict(record)}, indent=indent)


def from_dict(kind: type[T], data: Any, *, file: object) -> T:
    """Return the record of JSON values: the inverse of `to_dict`.

    Args:
        kind: Type of the record.
        data: JSON values.
        file: File of the data, for messages.

    Raises:
        ConfigError: a field is unknown, missing or invalid; names file, field and value.
    """
    try:
        record: T = _adapter(kind).validate_python(data)
    except ValidationError as error:
        raise ConfigError(f"cannot read {file}: {fault_of(error)}") from error
    return record


def from_json(kind: type[T], text: str, *, file: object, version: int) -> T:
    """Return the record of a JSON text: the inverse of `to_json`.

    Raises:
        ConfigError: `text` is not JSON, its layout has another version, or a field is invalid.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"cannot read {file}: {_DAMAGED}") from error
    if not isinstance(data, dict) or "version" not in data:
        raise ConfigError(f"cannot read {file}: it is JSON without the version of a layout")
    actual = data.pop("version")
    if actual != version:
        raise ConfigError(f"cannot read {file}: its layout is version {actual!r}, not {version}")
    return from_dict(kind, data, file=file)


def fault_of(error: OSError | ValidationError) -> str:
    """Return the first reason why a record cannot be read, with the field and its value."""
    if isinstance(error, OSError):
        return reason_of(error)
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return _DAMAGED
    where = ".".join(map(str, first["loc"])) or "it"
    if first["type"] == "value_error":
        return f"{where}: {first['ctx']['error']}"
    value, message = repr(first["input"]), first["msg"].lower()
    if first["type"] == "missing":
        return f"{where}: {message}"
    shown = value if len(value) <= _CHARACTERS else f"{value[:_CHARACTERS]}…"
    return f"{where}: {message}, found {shown}"
