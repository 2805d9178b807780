"""Public things as Markdown: the docstring and the signature of each, for docs/reference."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

from surface.signatures import described

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
