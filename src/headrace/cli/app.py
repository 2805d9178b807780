"""`headrace`: table of commands; errors as one line and an exit code."""

import os
import sys
import traceback
from contextlib import nullcontext
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from headrace.cli import profile
from headrace.cli.progress import silenced
from headrace.cli.signals import INTERRUPTED, TERMINATED, end_at_once
from headrace.cli.sources import list_line
from headrace.cli.usage_errors import CommandList, UsageError, reword_usage_error
from headrace.errors import ConfigError, HeadraceError, MediaError
from headrace.redaction import without_secrets

FAILED = 1
"""Exit code of a command that failed."""
USAGE = 2
"""Exit code of a command line that is not possible; typer uses the same."""
_ARGUMENTS = "headrace.arguments"
"""Key of the command line in `ctx.meta`, for error messages."""
_COMMANDS = {
    "demo": "Run a classifier on drawn videos, from file to report; downloads nothing.",
    "run": "Run a model on videos: predictions, annotated video and report in one folder.",
    "annotate": "Find objects in pictures or videos: boxes drawn, and listed for COCO and as "
    "Parquet.",
    "launch": "Run several models at once, each a process of its own, and compare them.",
    "compare": "Compare recorded runs: environment differences, then figures.",
    "models": "List the models that can be run, with size and weights.",
    "report": "Render the report of a run, or of all benchmarks, again.",
    "clip": "Read one clip; print its indices and times, show its first and last frame.",
    "index": "Index videos: a table of what they are and what is wrong with them.",
    "doctor": "Report what this machine has; check a dataset, or that frames of files are right.",
    "plan": "Compare strategies for random frames: speed, memory, bias and noise; recommend one.",
    "proxy": "Write small copies with short GOPs, from which random frames come fast.",
    "profile": "Profile a training script as it is; report whether it waits for its data.",
    "extract": "Take frames or features out of many videos, and keep them.",
    "bench": "Measure on your own videos and machine.",
    "cache": "Look after the cache of results, and stores of packed frames.",
}
"""Name → first sentence of its help, in the order of `--help`, which imports no command.
`headrace.cli.run` holds `run`, a function or a Typer app."""
_GLOBAL_FLAGS = ("--debug", "--quiet")
"""Flags that are accepted at any position."""
_EPILOG = (
    "Exit codes: 0 done, 1 failed (one line says why), 2 usage, 3 done but for what is named, "
    "130 interrupted, 143 terminated."
)


class _InterruptedError(Exception):
    """Ctrl-C that the command did not handle."""


class _Commands(CommandList):
    """The commands, each imported at its first use.

    Ctrl-C is reported, where typer is silent; usage errors have headrace's words.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of `--help`."""
        return [*_COMMANDS]

    def summaries(self, ctx: Any) -> dict[str, str]:
        """Return name → first sentence."""
        return _COMMANDS

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command; None for an unknown name."""
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            module = import_module(f"headrace.cli.{cmd_name}")
            command = getattr(module, cmd_name)
            if isinstance(command, typer.Typer):
                self.commands[cmd_name] = typer.main.get_group(command)
            else:
                single = typer.Typer(add_completion=False, rich_markup_mode=None)
                settings, kind = (getattr(module, name, None) for name in ("CONTEXT", "COMMAND"))
                single.command(cmd_name, cls=kind, context_settings=settings)(command)
                self.commands[cmd_name] = typer.main.get_command(single)
        if cmd_name not in _COMMANDS:  # typer suggests near names among the loaded commands
            for name in _COMMANDS:
                self.get_command(ctx, name)
        return self.commands.get(cmd_name)

    def make_context(
        self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the command line."""
        arguments = list(args)
        try:
            ctx = super().make_context(info_name, args, parent, **extra)
        except UsageError as error:
            raise reword_usage_error(error, arguments) from None
        except KeyboardInterrupt as error:
            raise _InterruptedError from error
        ctx.meta[_ARGUMENTS] = arguments
        return ctx

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise reword_usage_error(error, ctx.meta[_ARGUMENTS]) from None
        except KeyboardInterrupt as error:
            raise _InterruptedError from error


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress on stderr; works anywhere.")
    ] = False,
) -> None:
    """Video engine for PyTorch: exact frames, and the bottleneck of your pipeline."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; end the process with its exit code."""
    _prepare_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    count = profile.count_own_arguments(arguments)
    own, others = arguments[:count], arguments[count:]
    is_debug, is_quiet = (flag in own for flag in _GLOBAL_FLAGS)
    arguments = [*(word for word in own if word not in _GLOBAL_FLAGS), *others]
    try:
        with silenced() if is_quiet else nullcontext():
            _run(arguments)
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            end_at_once()
        raise
    except HeadraceError as error:
        line = list_line(error.source, arguments) if isinstance(error, MediaError) else ""
        text = traceback.format_exc() if is_debug else f"headrace: {error}{line}\n"
        print(without_secrets(text, arguments), file=sys.stderr, end="")
        sys.exit(USAGE if isinstance(error, ConfigError) else FAILED)
    except (KeyboardInterrupt, _InterruptedError):
        print("headrace: interrupted", file=sys.stderr)
        end_at_once()
        sys.exit(INTERRUPTED)
    except OSError as error:
        # The reader closed the pipe, as in `headrace index ... | head`, or the disk is full.
        sys.stdout = None
        if not isinstance(error, BrokenPipeError):
            reason = (error.strerror or str(error)).lower()
            print(f"headrace: cannot write to the standard output: {reason}", file=sys.stderr)
        sys.exit(FAILED)


def _run(arguments: list[str]) -> None:
    try:
        if arguments == ["--version"]:
            from importlib.metadata import version

            print(f"headrace {version('headrace')}")
        else:
            app(arguments, prog_name="headrace")
    finally:
        # Here, since an error at the end of the process could not be reported.
        sys.stdout.flush()


def _prepare_streams() -> None:
    """Open the standard streams that the parent process closed; escape what they cannot encode.

    A pipe or a file has the code page of Windows there, where one letter would end the command.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
