"""`headrace watch`: somebody's own training script, and what its loops wait for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Annotated, Final

import typer

TAKES_A_COMMAND: Final = {"allow_interspersed_args": False}
"""What follows the first word belongs to the command."""
_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python that take a further word."""
_OWN_WITH_VALUE: Final = ("--out", "--json")
_HELP: Final = "give `headrace watch -- python train.py`, or `-- python -m module`"


def own_arguments(arguments: list[str]) -> int:
    """Return how many of the arguments are not those of a command that is watched."""
    if arguments[:1] != ["watch"]:
        return len(arguments)
    place = 1
    while place < len(arguments) and arguments[place].startswith("-"):
        if arguments[place] == "--":
            return place
        place += 2 if arguments[place] in _OWN_WITH_VALUE else 1
    return place


def watch(
    command: Annotated[
        list[str], typer.Argument(metavar="-- PYTHON SCRIPT [ARGUMENTS...]", help="As you run it.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of a report for each loop.", metavar="DIR")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the sessions there.", metavar="FILE")
    ] = None,
) -> None:
    """Run a training script as it is; say whether it waits for its data.

    Nothing in the script changes: arguments, output, Ctrl-C and exit code are its own. When it has
    ended, the verdict on each loop over a DataLoader stands on stderr.
    """
    python, flags, kind, target, rest = _parsed(command)
    runs_it = _with_headrace(python)
    _check_places(out, json_file)
    note = json.dumps({"out": _absolute(out), "json": _absolute(json_file)})
    # Not a child: signals, the terminal and the exit code are those of the script without a detour.
    sys.stdout.flush()
    # By its file, not by -m: a module that Ctrl-C ends has another exit code than a script.
    words = [*flags, runs_it, note, kind, target, *rest]
    os.execv(python, [command[0], *words])


def _parsed(command: list[str]) -> tuple[str, list[str], str, str, list[str]]:
    """The Python, its own options, `file` or `module`, what to run, and its arguments."""
    from headrace.errors import ConfigError

    if not Path(command[0]).name.startswith("python"):
        raise ConfigError(f"cannot watch {command[0]!r}: it is no Python; {_HELP}")
    python = which(command[0])
    if python is None:
        raise ConfigError(f"cannot watch {command[0]!r}: there is no such program; {_HELP}")
    flags: list[str] = []
    words = list(command[1:])
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag in ("-m", "-c", "-"):
            if flag != "-m" or not words:
                raise ConfigError(f"cannot watch {flag!r}: no script and no module; {_HELP}")
            return python, flags, "module", words[0], words[1:]
        flags.append(flag)
        if flag in _WITH_VALUE and words:
            flags.append(words.pop(0))
    if not words:
        raise ConfigError(f"cannot watch {command[0]!r} alone: it runs no script; {_HELP}")
    if not Path(words[0]).exists():
        raise ConfigError(f"cannot watch {words[0]!r}: there is no such file; {_HELP}")
    return python, flags, "file", words[0], words[1:]


def _with_headrace(python: str) -> str:
    """Where the file that runs a script lies for `python`."""
    from headrace.errors import ConfigError

    if Path(python).parent.resolve() == Path(sys.executable).parent.resolve():
        return str(Path(__file__).parents[1] / "watching" / "script.py")
    asked = "import headrace.instrumentation as w; print(w.__path__[0])"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(
            f"cannot watch with {python}: headrace is not installed there; install it, or "
            f"give {sys.executable}"
        )
    return str(Path(done.stdout.strip()) / "script.py")


def _check_places(out: Path | None, json_file: Path | None) -> None:
    """Before the script runs, which may take hours."""
    from headrace.errors import ConfigError
    from headrace.runs.outputs import claim

    if out is not None:
        claim(out)
    if json_file is not None and (json_file.is_dir() or not json_file.absolute().parent.is_dir()):
        raise ConfigError(f"cannot write {json_file}: give a file in a folder that is there")


def _absolute(path: Path | None) -> str | None:
    """The script may change its folder."""
    return str(path.absolute()) if path else None
