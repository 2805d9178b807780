"""Docstrings and signatures of public names as Markdown, for docs/reference."""

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent
from typing import Any

from surface.signatures import described, members_of

_ENTRY = re.compile(r" {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.*)")
_SECTIONS = ("Args:", "Raises:", "Returns:", "Yields:")


def reference(name: str, thing: Any) -> Iterator[str]:
    """Yield the lines of one public name."""
    yield from (f"## {name}", "")
    if inspect.isclass(thing) or inspect.isroutine(thing):
        yield from _prose(thing.__doc__ or "")
        init = vars(thing).get("__init__") if inspect.isclass(thing) else None
        # A dataclass has no docstring of __init__, or its signature.
        if init is not None and "\n" in (init.__doc__ or ""):
            yield from _prose(init.__doc__)
    yield from ("```text", *described(name, thing), "```", "")
    if inspect.isclass(thing):
        yield from _members(thing)


def _members(cls: type) -> Iterator[str]:
    """Yield the docstring of each member: fields in their order, then the rest."""
    others = {
        name: inspect.cleandoc(getattr(member, "__doc__", None) or "")
        for name, member in members_of(cls)
        if _is_described(member)
    }
    docstrings = {n: text for n, text in {**_field_docstrings(cls), **others}.items() if text}
    for name, text in docstrings.items():
        first, *rest = text.partition("\n\n")[0].splitlines()
        yield from (f"- `{name}`: {first}", *(f"  {line}" for line in rest))
    if docstrings:
        yield ""


def _is_described(member: Any) -> bool:
    """Return whether the docstring belongs to the member, and not to the type of its value."""
    return callable(member) or hasattr(type(member), "__get__")


def _field_docstrings(cls: type) -> dict[str, str]:
    """Return the docstring below each field; fields of the bases come first."""
    docstrings = dict[str, str]()
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "headrace":
            (node,) = ast.parse(dedent(inspect.getsource(base))).body
            for field, below in pairwise(node.body):  # type: ignore[attr-defined]
                match field, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ) if not name.startswith("_"):
                        docstrings[name] = inspect.cleandoc(text)
    return docstrings


def _prose(docstring: str) -> Iterator[str]:
    """Yield a docstring with its sections as lists."""
    in_section = False
    for line in inspect.cleandoc(docstring).splitlines():
        entry = _ENTRY.fullmatch(line) if in_section else None
        if line in _SECTIONS:
            in_section = True
            yield from (line, "")
        elif entry:
            yield f"- `{entry[1]}`: {entry[2]}"
        else:
            in_section = in_section and (not line or line.startswith(" "))
            yield f"  {line.strip()}" if in_section and line else line
    yield ""
