"""`headrace profile -- torchrun ...`: profile of all ranks of a training."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Final

from headrace.cli.signals import run_in_place
from headrace.errors import ConfigError, HeadraceError

_MODULES: Final = ("torch.distributed.run", "torch.distributed.launch")
_FIX: Final = "give `headrace profile -- torchrun --nproc-per-node 2 train.py`"


@dataclass(frozen=True)
class Launch:
    """A launch of several ranks of one script."""

    launcher: tuple[str, ...]
    """Program with its options, up to the script."""
    kind: str
    """`file` or `module`."""
    target: str
    arguments: tuple[str, ...]


def find_launch(command: Sequence[str]) -> Launch | None:
    """Return the launch of a torchrun command line; None for any other command.

    Raises:
        ConfigError: the torchrun options are invalid or start no Python script, or the script is
            missing.
    """
    if Path(command[0]).name == "torchrun":
        launcher_words = 1
    elif len(command) > 2 and command[1] == "-m" and command[2] in _MODULES:
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
        raise ConfigError(f"torchrun cannot parse {given!r}; {_FIX}") from error
    if options.no_python:
        raise ConfigError(f"cannot profile --no-python: not a Python script; {_FIX}")
    if not options.module and not Path(options.training_script).exists():
        raise ConfigError(f"cannot profile {options.training_script!r}: no such file; {_FIX}")
    flags = command[launcher_words : len(command) - len(options.training_script_args) - 1]
    return Launch(
        launcher=(
            *command[:launcher_words],
            *(flag for flag in flags if not _is_module_flag(flag)),
        ),
        kind="module" if options.module else "file",
        target=options.training_script,
        arguments=tuple(options.training_script_args),
    )


def _is_module_flag(word: str) -> bool:
    """Whether a word is `-m`, `--module` or an abbreviation of it."""
    return word == "-m" or (word.startswith("--m") and "--module".startswith(word))


def profile_ranks(
    launch: Launch, runner: str, typed: Sequence[str], out: Path | None, json_file: Path | None
) -> int:
    """Run a launch, print the report of its ranks to stderr, and write the files.

    An error after the launch is printed and does not change the exit code.

    Args:
        launch: Launch to run.
        runner: Path of `instrumentation/script.py`.
        typed: Command line before the script, for the records.
        out: Folder of the report.
        json_file: File of the record.

    Returns:
        Exit code of the launcher; negative: a signal.
    """
    from headrace.profiling.resource_usage import ProcessorShare

    program = which(launch.launcher[0])
    if program is None:
        raise ConfigError(f"cannot profile {launch.launcher[0]!r}: no such program; {_FIX}")
    with TemporaryDirectory(prefix="headrace-ranks-") as folder:
        outputs = json.dumps({"ranks": folder, "typed": typed})
        words = [*launch.launcher, runner, outputs, launch.kind, launch.target, *launch.arguments]
        share = ProcessorShare()
        code = run_in_place(program, words).code
        try:
            _report(Path(folder), share.of_others(), launch.target, out, json_file)
        except HeadraceError as error:
            sys.stderr.write(f"headrace: {error}\n")
    return code


def _report(
    folder: Path, share: float | None, target: str, out: Path | None, json_file: Path | None
) -> None:
    from headrace.atomic_file import write_whole
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
