"""Types and values as text that does not depend on the Python version: names without modules."""

import enum
import types
from collections.abc import Mapping
from inspect import isclass, isroutine
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike


def type_text(kind: Any) -> str:
    """Return a type as text without modules, like `tuple[Source, ...] | None`."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, ForwardRef):
        return kind.__forward_arg__
    if kind is None or kind is type(None):
        return "None"
    if kind is Ellipsis:
        return "..."
    if isinstance(kind, TypeVar):
        return kind.__name__
    if isinstance(kind, list):
        return f"[{', '.join(map(type_text, kind))}]"
    if kind == ArrayLike:
        return "ArrayLike"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " | ".join(map(type_text, arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(value_text, arguments))}]"
    if origin is Annotated:
        return type_text(arguments[0])
    if origin is np.ndarray:
        return f"NDArray[{type_text(get_args(arguments[1])[0])}]"
    if origin is not None:
        return f"{type_text(origin)}[{', '.join(map(type_text, arguments))}]"
    return getattr(kind, "__qualname__", None) or getattr(kind, "_name", None) or str(kind)


def value_text(value: Any) -> str:
    """Return a default as text; an object without its own repr is shown as its type."""
    if isinstance(value, enum.Enum):
        return str(value)
    if isclass(value) or isroutine(value):
        return value.__qualname__
    if isinstance(value, Mapping):
        return f"{{{', '.join(map(value_text, value))}}}"
    text = repr(value)
    return f"<{type(value).__qualname__}>" if " at 0x" in text else text
