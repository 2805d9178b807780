"""Fixtures that call commands, with the cache folder inside the folder of the test."""

import json
import math

import pytest

from headrace.cli import main


@pytest.fixture
def call(capsys):
    """Return a function: arguments -> (exit code, stdout, stderr)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def printed(call):
    """Return a function: arguments of a command that succeeds with an empty stderr -> stdout."""

    def run(*arguments: object) -> str:
        code, out, err = call(*arguments)
        assert (code, err) == (0, "")
        return out

    return run


@pytest.fixture
def as_json(printed):
    """Return a function: arguments of a command -> its JSON output."""
    return lambda *arguments: json.loads(printed(*arguments, "--json"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def no_lines(monkeypatch):
    """Write no progress lines, which a slow machine would add to the expected stderr."""
    monkeypatch.setattr("headrace.cli.progress.LINE_SECONDS", math.inf)


@pytest.fixture(autouse=True)
def no_trials(monkeypatch):
    """Measure no other settings after a run, which takes two seconds or more."""
    monkeypatch.setattr("headrace.runs.what_if.settings", lambda session: iter(()))
