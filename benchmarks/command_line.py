"""Command lines derived from function signatures."""

import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter, getdoc, signature
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

T = TypeVar("T")
_ENTRY = re.compile(r"^    (\w+): (.+(?:\n        .+)*)", re.MULTILINE)
"""Entry of a docstring's `Args:`: parameter and description."""


def call(function: Callable[..., T], about: str, words: Sequence[str] | None = None) -> T:
    """Call a function with the arguments of a command line; see `parse`."""
    return function(**parse(function, about, words))


def parse(
    function: Callable[..., Any], about: str, words: Sequence[str] | None = None, **more: Any
) -> dict[str, Any]:
    """Return the arguments of a function from a command line, by default this process's.

    Positional parameters become positional arguments; a tuple takes several. Keyword parameters
    become options: a bool is a flag, and a tuple takes several values (a tuple of str only the
    values of its default). Parameters bound by a `partial` are left out. The help of a parameter is
    its entry in the docstring.

    Args:
        function: Function to call.
        about: Description in the help.
        words: Words of the command line.
        more: Further options with their defaults.
    """
    target, bound = function, dict[str, Any]()
    if isinstance(function, partial):
        target, bound = function.func, function.keywords
    spec = sys.modules["__main__"].__spec__
    parser = ArgumentParser(
        prog=f"python -m {spec.name.removesuffix('.__main__')}" if spec else None,
        description=about,
        formatter_class=RawDescriptionHelpFormatter,
    )
    helps = dict(_ENTRY.findall(getdoc(target) or ""))
    parameters = dict(signature(target).parameters)
    for name, default in more.items():
        parameters[name] = Parameter(
            name, Parameter.KEYWORD_ONLY, default=default, annotation=type(default)
        )
    for name, parameter in parameters.items():
        if name not in bound:
            is_word = parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
            arguments = _arguments(parameter, is_word=is_word)
            names = [name] if is_word else [f"--{name.replace('_', '-')}"]
            parser.add_argument(*names, help=helps.get(name), **arguments)
    options = vars(parser.parse_args(words))
    return {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}


def _arguments(parameter: Parameter, *, is_word: bool) -> dict[str, Any]:
    """Return the arguments of argparse's `add_argument` for a parameter."""
    kind, default = parameter.annotation, parameter.default
    if kind is bool:
        return {"action": "store_true"}
    arguments: dict[str, Any] = {}
    if not is_word:
        is_needed = default is Parameter.empty
        arguments = {"required": True} if is_needed else {"default": default}
    if NoneType in get_args(kind):
        [kind] = {*get_args(kind)} - {NoneType}
    inside = get_args(kind)
    if get_origin(kind) is Literal:
        return {**arguments, "choices": inside}
    if get_origin(kind) is not tuple:
        return {**arguments, "type": kind}
    arguments |= {"type": inside[0], "nargs": len(inside)}
    if inside[1:] == (...,):
        arguments["nargs"] = "*" if is_word and default == () else "+"
    return arguments | ({"choices": default} if inside[0] is str and not is_word else {})
