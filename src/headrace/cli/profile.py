"""`headrace profile`: profile of the DataLoader loops of an unchanged training script."""

import json
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Annotated, Any, Final

import typer

from headrace.cli.signals import ChildEnd, become, exit_as, run_in_place

NAME: Final = "profile"
CONTEXT: Final = {"allow_interspersed_args": False}
"""Click settings: everything after the first argument belongs to the profiled command."""
_PYTHON_OPTIONS_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
_OPTIONS_WITH_VALUE: Final = ("--out", "--json")
_FIX: Final = "give `headrace profile -- python train.py`, or `-- python -m module`"


def count_headrace_arguments(arguments: list[str]) -> int:
    """Return the number of leading arguments that do not belong to a profiled command."""
    if arguments[:1] != [NAME]:
        return len(arguments)
    position = 1
    while position < len(arguments) and arguments[position].startswith("-"):
        if arguments[position] == "--":
            return position
        position += 2 if arguments[position] in _OPTIONS_WITH_VALUE else 1
    return position


def profile(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- PYTHON SCRIPT [ARGUMENTS...]", help="Command to profile."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write a report of each loop to this folder.", metavar="DIR")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the sessions to this JSON file.", metavar="FILE"),
    ] = None,
    apply_advice: Annotated[
        bool,
        typer.Option(
            "--apply-advice",
            help="Run the script a second time with the advised DataLoader change, and report the "
            "gain. All side effects of the script happen twice.",
        ),
    ] = False,
) -> None:
    """Profile an unchanged training script; report whether it waits for data.

    Arguments, output, Ctrl-C and exit code of the script stay the same. At its end, a verdict on
    each loop over a DataLoader is printed to stderr. With `torchrun ... train.py`, all ranks on
    this machine are profiled and compared.
    """
    from headrace.cli.profile_ranks import find_launch, profile_ranks
    from headrace.errors import ConfigError

    launch = find_launch(command)
    if launch is not None:
        if apply_advice:
            raise ConfigError(f"--apply-advice does not work with several ranks; {_FIX}")
        _check_outputs(out, json_file)
        program = Path(which(command[0]) or command[0])
        is_python = program.name.startswith("python")
        runner = _find_runner(str(program if is_python else program.with_name("python")))
        typed = [*_words_before(command), *launch.launcher]
        exit_as(profile_ranks(launch, runner, typed, out, json_file))
    python, flags, kind, target, rest = _parse(command)
    runner = _find_runner(python)
    _check_outputs(out, json_file)

    def arguments(outputs: dict[str, Any]) -> list[str]:
        # The runner is a file, not -m: Ctrl-C gives a module another exit code than a script.
        # Absolute paths, as the script may change its working directory.
        typed = [*_words_before(command), command[0], *flags]
        text = json.dumps(outputs | {"typed": typed}, default=lambda path: str(path.absolute()))
        return [command[0], *flags, runner, text, kind, target, *rest]

    sys.stdout.flush()
    if apply_advice:
        from headrace.cli.profile_apply import profile_twice

        def run_script(outputs: dict[str, Any], stdout: int | None) -> ChildEnd:
            return run_in_place(python, arguments(outputs), stdout=stdout)

        exit_as(profile_twice(run_script, out, json_file))
    become(python, arguments({"out": out, "json": json_file}))


def _words_before(command: list[str]) -> list[str]:
    """Return the command line before the profiled command: `headrace profile --out run --`."""
    return ["headrace", *sys.argv[1 : len(sys.argv) - len(command)]]


def _parse(command: list[str]) -> tuple[str, list[str], str, str, list[str]]:
    """Return the path of Python, its options, `file` or `module`, the target and its arguments."""
    from headrace.errors import ConfigError

    if not Path(command[0]).name.startswith("python"):
        raise ConfigError(f"cannot profile {command[0]!r}: not a Python interpreter; {_FIX}")
    python = which(command[0])
    if python is None:
        raise ConfigError(f"cannot profile {command[0]!r}: no such program; {_FIX}")
    flags: list[str] = []
    words = list(command[1:])
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag in ("-m", "-c", "-"):
            if flag != "-m" or not words:
                raise ConfigError(f"cannot profile {flag!r}: not a script or a module; {_FIX}")
            return python, flags, "module", words[0], words[1:]
        flags.append(flag)
        if flag in _PYTHON_OPTIONS_WITH_VALUE and words:
            flags.append(words.pop(0))
    if not words:
        raise ConfigError(f"cannot profile {command[0]!r} without a script; {_FIX}")
    if not Path(words[0]).exists():
        raise ConfigError(f"cannot profile {words[0]!r}: no such file; {_FIX}")
    return python, flags, "file", words[0], words[1:]


def _find_runner(python: str) -> str:
    """Return the path of `instrumentation/script.py` in the environment of `python`."""
    from headrace.errors import ConfigError

    if Path(python).parent.resolve() == Path(sys.executable).parent.resolve():
        return str(Path(__file__).parents[1] / "instrumentation" / "script.py")
    code = "import headrace.instrumentation as package; print(package.__path__[0])"
    result = subprocess.run([python, "-c", code], capture_output=True, text=True)
    if result.returncode:
        raise ConfigError(
            f"cannot profile with {python}: it has no headrace; install headrace there, or use "
            f"{sys.executable}"
        )
    return str(Path(result.stdout.strip()) / "script.py")


def _check_outputs(out: Path | None, json_file: Path | None) -> None:
    """Check the output paths before the script runs, which may take hours."""
    from headrace.errors import ConfigError

    if out is not None:
        from headrace.runs.output_folder import prepare_folder

        prepare_folder(out)
    if json_file is not None and (json_file.is_dir() or not json_file.absolute().parent.is_dir()):
        raise ConfigError(
            f"cannot write {json_file}: not a file in an existing folder; give another path"
        )
