"""`headrace`: the commands together, and what goes wrong as one line and an exit code."""

import os
import sys
import traceback
from contextlib import nullcontext
from importlib import import_module
from typing import Annotated, Any

import typer

from headrace.cli import watch
from headrace.cli.progress import silenced
from headrace.cli.signals import INTERRUPTED, TERMINATED, end_at_once
from headrace.cli.usage_errors import CommandList, UsageError, in_our_words
from headrace.errors import ConfigError, HeadraceError
from headrace.redaction import without_secrets

FAILED = 1
"""Exit code when something asked for could not be done."""
USAGE = 2
"""Exit code when what was asked for is not possible; also that of typer's own errors."""
_GIVEN = "headrace.arguments"
"""Where the arguments of a command line are kept, for its errors."""
_COMMANDS = {
    "run": "Run a model on videos: predictions, annotated video and report in one folder.",
    "annotate": "Find objects in pictures or videos: boxes drawn, and listed for COCO and as "
    "Parquet.",
    "launch": "Run several models at once, each a process of its own, and compare them.",
    "compare": "Compare recorded runs: what differs around them, then their figures.",
    "models": "List the models that can be run, with size and weights.",
    "report": "Render the report of a run, or of all benchmarks, again.",
    "clip": "Read one clip; print its indices and times, show its first and last frame.",
    "index": "Index videos: a table of what they are and what is wrong with them.",
    "doctor": "Say what this machine has, and prove on your files that frames are right.",
    "plan": "Compare ways to draw random frames: speed, memory, bias and noise; recommend one.",
    "proxy": "Write small copies with short GOPs, from which random frames come fast.",
    "watch": "Run a training script as it is; say whether it waits for its data.",
    "extract": "Take frames or features out of many videos, and keep them.",
    "bench": "Measure on your own videos and machine.",
    "cache": "Look after the cache of results.",
}
"""In the order of `--help`, which imports none of them: name to the first sentence of its help.
`headrace.cli.run` holds `run`, a function or an app of typer."""
_ANYWHERE = ("--debug", "--quiet")
_EPILOG = (
    "Exit codes: 0 done, 1 failed (one line says why), 2 usage, 3 extracted but for what is named, "
    "130 interrupted, 143 terminated."
)


class _InterruptedError(Exception):
    """Somebody pressed Ctrl-C, and the command has nothing to say of it."""


class _Commands(CommandList):
    """The commands, each imported when it is asked for.

    Ctrl-C is reported, which typer does silently, and usage errors are worded by headrace.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names in the order of `--help`."""
        return [*_COMMANDS]

    def summaries(self, ctx: Any) -> dict[str, str]:
        """Return name to first sentence."""
        return _COMMANDS

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command; None if there is none of this name."""
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            found = getattr(import_module(f"headrace.cli.{cmd_name}"), cmd_name)
            if isinstance(found, typer.Typer):
                self.commands[cmd_name] = typer.main.get_group(found)
            else:
                single = typer.Typer(add_completion=False, rich_markup_mode=None)
                settings = watch.TAKES_A_COMMAND if cmd_name == "watch" else None
                single.command(cmd_name, context_settings=settings)(found)
                self.commands[cmd_name] = typer.main.get_command(single)
        if cmd_name not in _COMMANDS:  # what is near it is looked for among those that are there
            for name in _COMMANDS:
                self.get_command(ctx, name)
        return self.commands.get(cmd_name)

    def make_context(
        self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Understand the command line."""
        given = list(args)
        try:
            ctx = super().make_context(info_name, args, parent, **extra)
        except UsageError as error:
            raise in_our_words(error, given) from None
        except KeyboardInterrupt as error:
            raise _InterruptedError from error
        ctx.meta[_GIVEN] = given
        return ctx

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise in_our_words(error, ctx.meta[_GIVEN]) from None
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
    """Video for PyTorch: the right frames, fast, and where every millisecond went."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; end the process with its exit code."""
    _open_what_is_closed()
    arguments = sys.argv[1:] if arguments is None else arguments
    own = watch.own_arguments(arguments)
    is_debug, is_quiet = (flag in arguments[:own] for flag in _ANYWHERE)
    arguments = [*(each for each in arguments[:own] if each not in _ANYWHERE), *arguments[own:]]
    try:
        with silenced() if is_quiet else nullcontext():
            _run(arguments)
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            end_at_once()
        raise
    except HeadraceError as error:
        text = traceback.format_exc() if is_debug else f"headrace: {error}\n"
        print(without_secrets(text, arguments), file=sys.stderr, end="")
        sys.exit(USAGE if isinstance(error, ConfigError) else FAILED)
    except (KeyboardInterrupt, _InterruptedError):
        print("headrace: interrupted", file=sys.stderr)
        end_at_once()
        sys.exit(INTERRUPTED)
    except OSError as error:
        # Whoever read our output has enough, as in `headrace index ... | head`, or a full disk.
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
        # Not at the end of the process, where nobody could say that it cannot be written.
        sys.stdout.flush()


def _open_what_is_closed() -> None:
    """Give streams that whoever started the process has closed: what goes there is gone."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
