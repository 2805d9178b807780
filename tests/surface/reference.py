"""Public things as Markdown: the docstring and the signature of each, for docs/reference."""

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
        made = vars(thing).get("__init__") if inspect.isclass(thing) else None
        # Of a dataclass it has no docstring, or one that is its signature.
        if made is not None and "\n" in (made.__doc__ or ""):
            yield from _prose(made.__doc__)
    yield from ("```text", *described(name, thing), "```", "")
    if inspect.isclass(thing):
        yield from _members(thing)


def _members(cls: type) -> Iterator[str]:
    """Yield what each member says of itself: fields in the order they are given, then the rest."""
    of_fields = _of_fields(cls)
    of_others = {
        name: inspect.cleandoc(getattr(member, "__doc__", None) or "")
        for name, member in members_of(cls)
        if _is_described(member)
    }
    said = {name: text for name, text in {**of_fields, **of_others}.items() if text}
    for name, text in said.items():
        first, *rest = text.partition("\n\n")[0].splitlines()
        yield from (f"- `{name}`: {first}", *(f"  {line}" for line in rest))
    if said:
        yield ""


def _is_described(member: Any) -> bool:
    """Whether a docstring is the member's own, and not that of the type of its value."""
    return callable(member) or hasattr(type(member), "__get__")


def _of_fields(cls: type) -> dict[str, str]:
    """Return the docstring under each field, those of the bases first."""
    found = dict[str, str]()
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "headrace":
            (made,) = ast.parse(dedent(inspect.getsource(base))).body
            for field, below in pairwise(made.body):  # type: ignore[attr-defined]
                match field, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ) if not name.startswith("_"):
                        found[name] = inspect.cleandoc(text)
    return found


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
