"""What `--help` says of every command, on 80 columns and no terminal."""

import pytest
import typer

from headrace.cli import main
from headrace.cli.app import app


@pytest.fixture
def plain(monkeypatch):
    """The environment of a console that is none: 80 columns, nothing set by the user."""
    for name in ("FORCE_COLOR", "HEADRACE_CACHE", "HEADRACE_WEB_TOKEN", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


def test_every_command_says_this_of_itself(holds, plain, capsys):
    pages = []
    for command in _commands(typer.main.get_command(app), ()):
        with pytest.raises(SystemExit) as end:
            main([*command, "--help"])
        assert end.value.code == 0
        pages.append(capsys.readouterr().out)
    holds("help.txt", f"\n{'-' * 80}\n\n".join(pages))


def _commands(command, path):
    yield path
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from _commands(command.get_command(context, name), (*path, name))
