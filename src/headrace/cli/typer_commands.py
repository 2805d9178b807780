"""Commands, command lists and usage errors of typer, adapted."""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

from headrace.redaction import without_secrets

UsageError: Final = cast(type[Exception], typer.BadParameter.__base__)
"""Base class of typer's usage errors, which has no public name."""
_MESSAGES: Final = {
    "greater_than_equal": "must be >= {ge}",
    "less_than_equal": "must be <= {le}",
    "greater_than": "must be > {gt}",
    "less_than": "must be < {lt}",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
}
"""pydantic error type → message."""


def reword_usage_error(error: Any, arguments: Sequence[str]) -> Exception:
    """Return the usage error with a reworded message and masked passwords."""
    cause: Any = error.__cause__
    if isinstance(error, typer.BadParameter) and hasattr(cause, "errors"):
        detail = cause.errors()[0]
        context = detail.get("ctx", {})
        if detail["type"] == "value_error":
            error.message = str(context["error"])
        else:
            message = _MESSAGES.get(detail["type"], "is invalid").format(**context)
            error.message = f"{message}, got {detail['input']!r}"
    error.message = without_secrets(error.message, arguments)
    return cast(Exception, error)


def build_command(name: str, function: Callable[..., None], **settings: Any) -> Any:
    """Return the Click command of a typer function; `settings` are those of `Typer.command`."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, **settings)(function)
    return typer.main.get_command(app)


_MAX_SENTENCE: Final = 1000
"""Max characters of a first sentence; large enough to cut none."""


class CommandList(TyperGroup):
    """Command group whose descriptions are wrapped, not truncated."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write names and first sentences, which typer would truncate."""
        with formatter.section("Commands"):
            formatter.write_dl([*self.summaries(ctx).items()])

    def summaries(self, ctx: Any) -> dict[str, str]:
        """Return name → first sentence of its help."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return {
            name: command.get_short_help_str(_MAX_SENTENCE) for name, command in commands if command
        }
