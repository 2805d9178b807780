"""Commands that are listed with the whole sentence that each says of itself."""

from typing import Any, Final

from typer.core import TyperGroup

_WHOLE: Final = 1000
"""Characters; a sentence has fewer."""


class CommandList(TyperGroup):
    """A group of commands; what does not fit into a line goes on in the next one."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write their names and first sentences; typer would cut these off with dots."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(_WHOLE)) for name, each in found if each]
            )
