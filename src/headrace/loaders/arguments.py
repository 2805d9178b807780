"""How the fields of a dataclass are typed as the keyword arguments of a class."""

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from headrace.argument_names import check_names

P = ParamSpec("P")
Owner = TypeVar("Owner")
Asked = TypeVar("Asked")

_ARGUMENT = re.compile(r"^    (\w+): .*(?:\n {5,}.*)*", re.MULTILINE)
"""What a docstring says of one argument."""


def takes(
    options: Callable[P, Asked],
) -> Callable[[Callable[[Owner, Asked], None]], Callable[Concatenate[Owner, P], None]]:
    """Let an `__init__` that takes one dataclass be called with the fields of it.

        @takes(FrameOptions)
        def __init__(self, asked: FrameOptions) -> None: ...

    `FrameLoader(videos, batch_size=8)` is given `FrameOptions(videos, batch_size=8)`. Each argument
    is written once, with its type, default and doc; type checkers, `help` and `inspect.signature`
    see it where it is typed. (A TypedDict to unpack has no place for defaults; and if the loader
    itself were the dataclass, its arguments could be set later, to no effect.)
    """

    def decorate(init: Callable[[Owner, Asked], None]) -> Callable[Concatenate[Owner, P], None]:
        parameters = _parameters(cast(type, options))
        known = [each.name for each in parameters]

        @wraps(init)
        def with_arguments(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> None:
            check_names(type(self).__name__, kwargs, known)
            init(self, options(*args, **kwargs))

        # So that a wrong argument is said to be one of what was called.
        vars(options)["__init__"].__qualname__ = init.__qualname__
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        with_arguments.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
        documented = _documented(cast(type, options))
        lines = "\n".join(documented[each.name] for each in parameters)
        with_arguments.__doc__ = f"{inspect.getdoc(init)}\n\nArgs:\n{lines}\n"
        return with_arguments

    return decorate


def _parameters(options: type) -> list[inspect.Parameter]:
    """Return the arguments of a dataclass: its own first, then those it inherits."""
    declared = [name for each in options.__mro__ for name in inspect.get_annotations(each)]
    found = inspect.signature(options).parameters.values()
    return sorted(found, key=lambda each: (each.kind, declared.index(each.name)))


def _documented(options: type) -> dict[str, str]:
    """Return what is said of each argument, indented; a class says it better than its parents."""
    found: dict[str, str] = {}
    for each in reversed(options.__mro__):
        _, _, arguments = inspect.cleandoc(each.__doc__ or "").partition("\nArgs:\n")
        found |= {match[1]: match[0] for match in _ARGUMENT.finditer(arguments)}
    return found
