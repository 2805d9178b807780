"""`headrace`: the table of commands; errors become one line and an exit code."""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, Final, cast

import typer
from typer.core import TyperGroup

from headrace.cli import profile
from headrace.cli.progress import silenced
from headrace.cli.signals import INTERRUPTED, TERMINATED, restore_default_sigint
from headrace.cli.sources import list_line
from headrace.errors import ConfigError, HeadraceError, MediaError
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


FAILED = 1
"""Exit code of a command that failed."""
USAGE = 2
"""Exit code of a usage error, as in typer."""
_ARGUMENTS = "headrace.arguments"
"""Key of the command line in `ctx.meta`, for error messages."""
_COMMANDS = {
    "demo": "Run a classifier on generated videos, from file to report, without a download.",
    "run": "Run a model on videos: predictions, annotated video and report in one folder.",
    "annotate": "Detect objects in images or videos; draw the boxes, and write them as COCO and "
    "Parquet.",
    "launch": "Run several models at once, each in its own process, and compare them.",
    "compare": "Compare recorded runs: differences in environment, then in figures.",
    "models": "List the available models with their size and weights.",
    "report": "Render the report of a run or of bench all again.",
    "clip": "Read one clip; print its indices and times; write its first and last frame.",
    "index": "Index videos: a table of their properties and problems.",
    "doctor": "Describe this machine; check a LeRobot dataset, or compare seeks with linear reads.",
    "plan": "Compare sampling strategies: speed, memory, bias and noise; recommend one.",
    "proxy": "Write small copies with short GOPs, for fast random access.",
    "profile": "Profile an unchanged training script; report whether it waits for data.",
    "extract": "Extract frames or features from many videos.",
    "bench": "Run benchmarks on your own videos and machine.",
    "cache": "Inspect and prune the cache of results and stores of packed frames.",
}
"""Command → first sentence of its help, so that `--help` imports no command.

The module `headrace.cli.<command>` has a function or Typer app of the same name."""
_GLOBAL_FLAGS = ("--debug", "--quiet")
"""Flags that are accepted at any position."""
_EPILOG = (
    "Exit codes: 0 success; 1 failure (with a one-line reason), also a missing video, image or "
    "stream; 2 usage error, also a missing run, script or file of options; 3 success with listed "
    "losses; 130 interrupted; 143 terminated."
)


class _InterruptedError(Exception):
    """Ctrl-C that the command did not handle."""


class _Commands(CommandList):
    """Commands, each imported on first use.

    Unlike typer's group, it reports Ctrl-C and rewords usage errors.
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
                settings, kind = (getattr(module, name, None) for name in ("CONTEXT", "COMMAND"))
                self.commands[cmd_name] = build_command(
                    cmd_name, command, cls=kind, context_settings=settings
                )
        if cmd_name not in _COMMANDS:  # typer suggests similar names of loaded commands only
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
        bool, typer.Option("--debug", help="Print tracebacks of errors; allowed at any position.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print no progress to stderr; allowed at any position.")
    ] = False,
) -> None:
    """Video engine for PyTorch: exact frames, and the bottleneck of your pipeline."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code."""
    _prepare_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    count = profile.count_headrace_arguments(arguments)
    headrace_arguments, script_arguments = arguments[:count], arguments[count:]
    is_debug, is_quiet = (flag in headrace_arguments for flag in _GLOBAL_FLAGS)
    arguments = [
        *(word for word in headrace_arguments if word not in _GLOBAL_FLAGS),
        *script_arguments,
    ]
    try:
        with (
            silenced() if is_quiet else nullcontext(),
            _printing_tracebacks(arguments) if is_debug else nullcontext(),
        ):
            _run(arguments)
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            restore_default_sigint()
        raise
    except HeadraceError as error:
        line = list_line(error.source, arguments) if isinstance(error, MediaError) else ""
        text = traceback.format_exc() if is_debug else f"headrace: {error}{line}\n"
        print(without_secrets(text, arguments), file=sys.stderr, end="")
        sys.exit(USAGE if isinstance(error, ConfigError) else FAILED)
    except (KeyboardInterrupt, _InterruptedError):
        print("headrace: interrupted", file=sys.stderr)
        restore_default_sigint()
        sys.exit(INTERRUPTED)
    except OSError as error:
        # The pipe is closed, as in `headrace index ... | head`, or the disk is full.
        sys.stdout = None
        if not isinstance(error, BrokenPipeError):
            reason = (error.strerror or str(error)).lower()
            print(f"headrace: cannot write to standard output: {reason}", file=sys.stderr)
        sys.exit(FAILED)


def _run(arguments: list[str]) -> None:
    try:
        if arguments == ["--version"]:
            from importlib.metadata import version

            print(f"headrace {version('headrace')}")
        else:
            app(arguments, prog_name="headrace")
    finally:
        # Flush here: an error in the flush at interpreter exit could not be handled.
        sys.stdout.flush()


class _MaskedFormatter(logging.Formatter):
    """Formatter that masks the passwords of a command line."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__("headrace: %(message)s")
        self._arguments = arguments

    def format(self, record: logging.LogRecord) -> str:
        """Return the message with its traceback."""
        return without_secrets(super().format(record), self._arguments)


@contextmanager
def _printing_tracebacks(arguments: Sequence[str]) -> Iterator[None]:
    """Print tracebacks of errors that a run records to stderr."""
    logger, handler = logging.getLogger("headrace"), logging.StreamHandler()
    handler.setFormatter(_MaskedFormatter(arguments))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _prepare_streams() -> None:
    """Open standard streams that the parent process closed; escape unencodable characters.

    On Windows a pipe or file uses the code page, where one character outside it would raise.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
