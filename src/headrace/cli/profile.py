"""`headrace profile`: profile of the DataLoader loops of an unchanged training script."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.atomic_file import write_whole
from headrace.cli.signals import STDERR, ChildEnd, become, exit_as, run_in_place
from headrace.errors import ConfigError, HeadraceError

if TYPE_CHECKING:
    from headrace.profiling.session import Session

NAME: Final = "profile"
CONTEXT: Final = {"allow_interspersed_args": False}
"""Click settings: everything after the first argument belongs to the profiled command."""
_PYTHON_OPTIONS_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
_OPTIONS_WITH_VALUE: Final = ("--out", "--json")
_LAUNCHERS: Final = ("torch.distributed.run", "torch.distributed.launch")
_FIX: Final = "give `headrace profile -- python train.py`, or `-- python -m module`"
_FIX_RANKS: Final = "give `headrace profile -- torchrun --nproc-per-node 2 train.py`"
_WIDTH: Final = 80
"""Columns."""
_NO_LOOPS: Final = "[]"
"""JSON of a script without loops."""
RunScript = Callable[[dict[str, Any], int | None], ChildEnd]
"""(`outputs` of `loop_profile.report_loops`, standard output) → end of the script."""


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
    ranks = find_launch(command)
    if ranks is not None and apply_advice:
        raise ConfigError(f"--apply-advice does not work with several ranks; {_FIX}")
    launch, fix = (_parse(command), _FIX) if ranks is None else (ranks, _FIX_RANKS)
    program = which(command[0])
    if program is None:
        raise ConfigError(f"cannot profile {command[0]!r}: no such program; {fix}")
    is_python = Path(program).name.startswith("python")
    runner = _find_runner(program if is_python else str(Path(program).with_name("python")))
    _check_outputs(out, json_file)
    # The command line up to the script, such as `headrace profile --out run -- python`.
    typed = ["headrace", *sys.argv[1 : len(sys.argv) - len(command)], *launch.launcher]

    def words(outputs: dict[str, Any]) -> list[str]:
        # The runner is a file, not -m: Ctrl-C gives a module another exit code than a script.
        # Absolute paths, as the script may change its working directory.
        text = json.dumps(outputs | {"typed": typed}, default=lambda path: str(path.absolute()))
        return [*launch.launcher, runner, text, launch.kind, launch.target, *launch.arguments]

    def run_script(outputs: dict[str, Any], stdout: int | None) -> ChildEnd:
        return run_in_place(program, words(outputs), stdout=stdout)

    sys.stdout.flush()
    if ranks is not None:
        exit_as(_profile_ranks(run_script, ranks.target, out, json_file))
    if apply_advice:
        exit_as(profile_twice(run_script, out, json_file))
    become(program, words({"out": out, "json": json_file}))


@dataclass(frozen=True)
class Launch:
    """Command to profile: a script, or several ranks of one."""

    launcher: tuple[str, ...]
    """Program with its options, up to the script."""
    kind: str
    """`file` or `module`."""
    target: str
    arguments: tuple[str, ...]


def _parse(command: list[str]) -> Launch:
    """Return the parts of a Python command line.

    Raises:
        ConfigError: the program is not Python, or it starts no existing script.
    """
    if not Path(command[0]).name.startswith("python"):
        raise ConfigError(f"cannot profile {command[0]!r}: not a Python interpreter; {_FIX}")
    launcher, words = [command[0]], list(command[1:])
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag in ("-m", "-c", "-"):
            if flag != "-m" or not words:
                raise ConfigError(f"cannot profile {flag!r}: not a script or a module; {_FIX}")
            return Launch(tuple(launcher), "module", words[0], tuple(words[1:]))
        launcher.append(flag)
        if flag in _PYTHON_OPTIONS_WITH_VALUE and words:
            launcher.append(words.pop(0))
    if not words:
        raise ConfigError(f"cannot profile {command[0]!r} without a script; {_FIX}")
    if not Path(words[0]).exists():
        raise ConfigError(f"cannot profile {words[0]!r}: no such file; {_FIX}")
    return Launch(tuple(launcher), "file", words[0], tuple(words[1:]))


def find_launch(command: Sequence[str]) -> Launch | None:
    """Return the parts of a torchrun command line; None for any other command.

    Raises:
        ConfigError: the torchrun options are invalid or start no Python script, or the script is
            missing.
    """
    if Path(command[0]).name == "torchrun":
        launcher_words = 1
    elif len(command) > 2 and command[1] == "-m" and command[2] in _LAUNCHERS:
        launcher_words = 3
    else:
        return None
    from torch.distributed.run import get_args_parser

    try:
        options = get_args_parser().parse_args([*command[launcher_words:]])
    except SystemExit as error:
        if not error.code:
            raise  # --help
        given = " ".join(command[launcher_words:])
        raise ConfigError(f"torchrun cannot parse {given!r}; {_FIX_RANKS}") from error
    if options.no_python:
        raise ConfigError(f"cannot profile --no-python: not a Python script; {_FIX_RANKS}")
    if not options.module and not Path(options.training_script).exists():
        raise ConfigError(f"cannot profile {options.training_script!r}: no such file; {_FIX_RANKS}")
    flags = command[launcher_words : len(command) - len(options.training_script_args) - 1]
    return Launch(
        (*command[:launcher_words], *(flag for flag in flags if not _is_module_flag(flag))),
        "module" if options.module else "file",
        options.training_script,
        tuple(options.training_script_args),
    )


def _is_module_flag(word: str) -> bool:
    """Whether a word is `-m`, `--module` or an abbreviation of it."""
    return word == "-m" or (word.startswith("--m") and "--module".startswith(word))


def _find_runner(python: str) -> str:
    """Return the path of `instrumentation/script.py` in the environment of `python`."""
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
    if out is not None:
        from headrace.runs.output_folder import prepare_folder

        prepare_folder(out)
    if json_file is not None and (json_file.is_dir() or not json_file.absolute().parent.is_dir()):
        raise ConfigError(
            f"cannot write {json_file}: not a file in an existing folder; give another path"
        )


def profile_twice(run_script: RunScript, out: Path | None, json_file: Path | None) -> int:
    """Profile a script, run it again with the advised change, and report the gain on stderr.

    The second run prints to stderr, so that standard output has the output of one run.

    Args:
        run_script: Runs the script.
        out: Folder of the reports; reports of the second run go to a subfolder.
        json_file: File for the sessions of both runs.

    Returns:
        Exit code of the first run, or of an interrupted second run; negative: a signal.
    """
    from headrace.profiling.findings.loader_trial import choose_trial, describe_trial
    from headrace.profiling.provenance import TRIED

    with TemporaryDirectory(prefix="headrace-") as folder:
        path = Path(folder) / "before.json"
        first = run_script({"out": out, "json": path}, None)
        before = _read(path)
        _write(json_file, before, _NO_LOOPS)
        if first.code or first.is_interrupted:
            _print(f"Tried no change, because the script {first}.")
            return first.code
        trial, refusals = choose_trial(_sessions(before))
        for refusal in refusals:
            _print(refusal)
        if trial is None:
            return first.code
        _print(f"Trying {trial}: the script runs a second time ...")
        change = {
            "loop": trial.loop.provenance.configuration,
            "options": dict(trial.change.options),
            "words": str(trial),
        }
        path = Path(folder) / "after.json"
        outputs = {"out": out and out / TRIED, "json": path, "change": change}
        second = run_script(outputs, STDERR)
        after = _read(path)
        _write(json_file, before, after)
        if second.code:
            _print(f"Tried {trial}: the gain is unknown, because the second run {second}.")
        else:
            _print(f"Tried {describe_trial(trial, _sessions(after))}")
        return second.code if second.is_interrupted else first.code


def _read(path: Path) -> str:
    """Return the sessions of a run as JSON; a script without loops writes no file."""
    return path.read_text(encoding="utf-8") if path.exists() else _NO_LOOPS


def _sessions(text: str) -> "list[Session]":
    from pydantic import TypeAdapter, ValidationError

    from headrace.profiling.session import Session

    try:
        return TypeAdapter(list[Session]).validate_json(text)
    except ValidationError as error:
        raise ConfigError(
            "cannot read the profile of the script: it is incomplete, or from another version of "
            "headrace; use the Python that this headrace is installed in"
        ) from error


def _write(json_file: Path | None, before: str, after: str) -> None:
    """Write the sessions of both runs; a failure is printed."""

    if json_file is not None:
        text = f'{{"before": {before.strip()}, "after": {after.strip()}}}\n'
        try:
            write_whole(json_file, text)
        except ConfigError as error:
            _print(str(error))


def _print(sentence: str) -> None:
    """Print to stderr, since stdout belongs to the script."""
    from headrace.report.text import printable

    lines = wrap(f"headrace: {sentence}", _WIDTH, subsequent_indent="  ")
    print("\n".join(map(printable, lines)), file=sys.stderr, flush=True)


def _profile_ranks(
    run_script: RunScript, target: str, out: Path | None, json_file: Path | None
) -> int:
    """Run all ranks, print their report to stderr, and write the files.

    An error after the run is printed and does not change the exit code.

    Args:
        run_script: Runs the launcher.
        target: Script of the ranks, for messages.
        out: Folder of the report.
        json_file: File of the record.

    Returns:
        Exit code of the launcher; negative: a signal.
    """
    from headrace.profiling.resource_usage import ProcessorShare

    with TemporaryDirectory(prefix="headrace-ranks-") as folder:
        share = ProcessorShare()
        code = run_script({"ranks": folder}, None).code
        try:
            _report(Path(folder), share.of_others(), target, out, json_file)
        except HeadraceError as error:
            sys.stderr.write(f"headrace: {error}\n")
    return code


def _report(
    folder: Path, share: float | None, target: str, out: Path | None, json_file: Path | None
) -> None:
    from headrace.report.benchmark_page import render_benchmark_text
    from headrace.report.ranks_page import ranks_of, ranks_page, write_ranks

    record = ranks_of(folder, share)
    if not record.ranks:
        sys.stderr.write(
            f"headrace: profiled no loop, as no rank of {target} read a batch from a DataLoader or "
            "a headrace loader\n"
        )
        return
    sys.stderr.write(render_benchmark_text(ranks_page(record)))
    if out is not None:
        write_ranks(record, out)
        sys.stderr.write(f"headrace: the report is in {out}\n")
    if json_file is not None:
        write_whole(json_file, record.model_dump_json() + "\n")
