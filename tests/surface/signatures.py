"""Signatures and members of public names as text."""

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

from surface.annotations import type_text, value_text

_MISSING = (inspect.Parameter.empty, dataclasses.MISSING)
_CALLED = ("__call__", "__enter__", "__getitem__", "__iter__", "__len__", "__next__")
"""Special methods that are part of the public interface."""
_LONGEST = 80
"""Max characters of parameters on one line."""


def described(name: str, thing: Any) -> Iterator[str]:
    """Yield the lines of a function, a class with its members, or a value."""
    if inspect.isclass(thing):
        yield from _class_lines(name, thing)
    elif callable(thing):
        yield f"def {name}{_signature(thing)}"
    else:
        yield f"{name}: {type_text(thing) if _is_type(thing) else value_text(thing)}"


def _class_lines(name: str, cls: type) -> Iterator[str]:
    bases = [base.__name__ for base in cls.__mro__[1:] if not _is_inner(base)]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    if dataclasses.is_dataclass(cls):
        params = cls.__dataclass_params__  # type: ignore[attr-defined]
        yield f"    dataclass: frozen={params.frozen} eq={params.eq} order={params.order}"
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    if _is_ours(owner) and not getattr(owner, "_is_protocol", False):
        yield f"    def __init__{_signature(cls)}"
    yield from (f"    {line}" for member in sorted(_members(cls)) for line in member.splitlines())


def _members(cls: type) -> Iterator[str]:
    fields = {each.name: each for each in _fields(cls)}
    for name, field in fields.items():
        yield f"{name}: {type_text(field.type)}{_default(field)}"
    for name, field in getattr(cls, "model_fields", {}).items():
        default = "" if field.is_required() else f" = {value_text(field.get_default())}"
        yield f"{name}: {type_text(field.annotation)}{default}"
    yield from (_member(name, member) for name, member in members_of(cls))


def members_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each public member that is not a field, of headrace's classes."""
    known = {*(each.name for each in _fields(cls)), *getattr(cls, "model_fields", {})}
    for name in dir(cls):
        is_public = not name.startswith("_") or name in _CALLED
        if not is_public or name in known:
            continue
        home = next(base for base in cls.__mro__ if name in vars(base))
        if _is_ours(home):
            yield name, vars(home)[name]


def _member(name: str, member: Any) -> str:
    match member:
        case staticmethod():
            return f"static def {name}{_signature(member.__func__)}"
        case classmethod():
            return f"class def {name}{_signature(member.__func__)}"
        case property():
            setter = "" if member.fset is None else ", can be set"
            return f"property {name}: {type_text(_returns(member.fget))}{setter}"
        case _ if inspect.isfunction(member):
            return f"def {name}{_signature(member)}"
        case _ if hasattr(member, "func"):  # cached_property
            return f"property {name}: {type_text(_returns(member.func))}"
        case _ if inspect.isdatadescriptor(member):
            return f"{name}"
    return f"{name} = {value_text(member)}"


def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return " = <made>"
    text = "" if field.default is dataclasses.MISSING else f" = {value_text(field.default)}"
    return text if field.init else f"{text} (not given)"


def _returns(function: Any) -> Any:
    return inspect.signature(function).return_annotation


def _signature(thing: Any) -> str:
    signature = inspect.signature(thing)
    parts, kinds = list[str](), inspect.Parameter
    before = None
    for parameter in signature.parameters.values():
        if before is kinds.POSITIONAL_ONLY and parameter.kind is not before:
            parts.append("/")
        if parameter.kind is kinds.KEYWORD_ONLY and before not in (
            kinds.KEYWORD_ONLY,
            kinds.VAR_POSITIONAL,
        ):
            parts.append("*")
        parts.append(_parameter(parameter))
        before = parameter.kind
    if before is kinds.POSITIONAL_ONLY:
        parts.append("/")
    returned = signature.return_annotation
    arrow = "" if returned in _MISSING else f" -> {type_text(returned)}"
    if sum(map(len, parts)) > _LONGEST:
        parts = [f"\n        {part}" for part in parts]
        return f"({','.join(parts)}\n    ){arrow}"
    return f"({', '.join(parts)}){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    text = stars.get(parameter.kind, "") + parameter.name
    if parameter.annotation not in _MISSING:
        text += f": {type_text(parameter.annotation)}"
    return text if parameter.default in _MISSING else f"{text} = {value_text(parameter.default)}"


def _is_inner(cls: type) -> bool:
    """Return whether a base is internal: of headrace but not an error, or of typing."""
    is_plumbing = cls.__module__ in ("abc", "builtins", "typing") and not issubclass(
        cls, BaseException | dict
    )
    is_plumbing = is_plumbing and cls.__name__ != "Protocol"
    return is_plumbing or (_is_ours(cls) and not issubclass(cls, BaseException))


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "headrace"


def _is_type(thing: Any) -> bool:
    return getattr(thing, "__origin__", None) is not None or hasattr(thing, "__args__")
