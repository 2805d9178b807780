"""What typer says of commands and of command lines that it cannot understand, in our words."""

from collections.abc import Sequence
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

from headrace.redaction import without_secrets

UsageError: Final = cast(type[Exception], typer.BadParameter.__base__)
"""What typer raises of a command line; it has a name for one kind only."""
_WORDS: Final = {
    "greater_than_equal": "must be >= {ge}",
    "less_than_equal": "must be <= {le}",
    "greater_than": "must be > {gt}",
    "less_than": "must be < {lt}",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
}
"""Kind of a fault, as the validation library calls it, to words of ours."""


def in_our_words(error: Any, arguments: Sequence[str]) -> Exception:
    """Return an error of the command line with words of ours, and without passwords.

    Words of the validation library are replaced; passwords in addresses among the arguments are
    masked.
    """
    cause: Any = error.__cause__
    if isinstance(error, typer.BadParameter) and hasattr(cause, "errors"):
        fault = cause.errors()[0]
        known = fault.get("ctx", {})
        if fault["type"] == "value_error":
            error.message = str(known["error"])
        else:
            words = _WORDS.get(fault["type"], "cannot be used").format(**known)
            error.message = f"{words}, got {fault['input']!r}"
    error.message = without_secrets(error.message, arguments)
    return cast(Exception, error)


_WHOLE: Final = 1000
"""Characters; a sentence has fewer."""


class CommandList(TyperGroup):
    """A group of commands; what does not fit into a line goes on in the next one."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write their names and first sentences; typer would cut these off with dots."""
        with formatter.section("Commands"):
            formatter.write_dl([*self.summaries(ctx).items()])

    def summaries(self, ctx: Any) -> dict[str, str]:
        """Return the name of each command and the first sentence of its help."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return {name: each.get_short_help_str(_WHOLE) for name, each in found if each}
