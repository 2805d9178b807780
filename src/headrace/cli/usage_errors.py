"""Usage errors and the list of commands, in headrace's words instead of typer's."""

from collections.abc import Sequence
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

from headrace.redaction import without_secrets

UsageError: Final = cast(type[Exception], typer.BadParameter.__base__)
"""Base of typer's usage errors, for which it has no public name."""
_MESSAGES: Final = {
    "greater_than_equal": "must be >= {ge}",
    "less_than_equal": "must be <= {le}",
    "greater_than": "must be > {gt}",
    "less_than": "must be < {lt}",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
}
"""Error type of pydantic → message."""


def reword_usage_error(error: Any, arguments: Sequence[str]) -> Exception:
    """Return a usage error with its message reworded, and passwords in addresses masked."""
    cause: Any = error.__cause__
    if isinstance(error, typer.BadParameter) and hasattr(cause, "errors"):
        fault = cause.errors()[0]
        context = fault.get("ctx", {})
        if fault["type"] == "value_error":
            error.message = str(context["error"])
        else:
            message = _MESSAGES.get(fault["type"], "cannot be used").format(**context)
            error.message = f"{message}, got {fault['input']!r}"
    error.message = without_secrets(error.message, arguments)
    return cast(Exception, error)


_MAX_SENTENCE: Final = 1000
"""Characters; no first sentence is cut."""


class CommandList(TyperGroup):
    """A group of commands, whose descriptions are wrapped and not cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write names and first sentences, which typer would cut off with dots."""
        with formatter.section("Commands"):
            formatter.write_dl([*self.summaries(ctx).items()])

    def summaries(self, ctx: Any) -> dict[str, str]:
        """Return name → first sentence of its help."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return {
            name: command.get_short_help_str(_MAX_SENTENCE) for name, command in commands if command
        }
