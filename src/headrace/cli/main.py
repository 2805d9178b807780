"""`headrace`: the commands together, and what goes wrong as one line and an exit code."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headrace.cli import (
    annotate,
    bench,
    clip,
    compare,
    doctor,
    index,
    launch,
    models,
    plan,
    report,
    run,
    watch,
)
from headrace.cli.retrain_run import with_mode
from headrace.cli.stopping import INTERRUPTED
from headrace.cli.usage import in_our_words
from headrace.errors import ConfigError, HeadraceError

FAILED = 1
"""Exit code when something asked for could not be done."""
USAGE = 2
"""Exit code when what was asked for is not possible; also that of typer's own errors."""
_EPILOG = (
    "Exit codes: 0 done, 1 failed (one line says why), 2 usage, 130 interrupted, 143 terminated."
)


class _InterruptedError(Exception):
    """Somebody pressed Ctrl-C, and the command has nothing to say of it."""


class _Commands(TyperGroup):
    """The commands; typer would say nothing of Ctrl-C, and words of other libraries of faults."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Understand the command line."""
        try:
            return super().make_context(*args, **options)
        except typer.BadParameter as error:
            raise in_our_words(error) from None
        except KeyboardInterrupt as error:
            raise _InterruptedError from error

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            raise in_our_words(error) from None
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
app.command("run")(with_mode(run.run))
app.command("annotate")(annotate.annotate)
app.command("launch")(launch.launch)
app.command("compare")(compare.compare)
app.command("models")(models.models)
app.command("report")(report.report)
app.command("clip")(clip.clip)
app.command("index")(index.index)
app.command("doctor")(doctor.doctor)
app.command("plan")(plan.plan)
app.command("watch", context_settings=watch.TAKES_A_COMMAND)(watch.watch)
app.add_typer(bench.bench, name="bench")


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")
    ] = False,
) -> None:
    """Video for PyTorch: the right frames, fast, and where every millisecond went."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; end the process with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    own = watch.own_arguments(arguments)
    is_debug = "--debug" in arguments[:own]
    arguments = [each for k, each in enumerate(arguments) if each != "--debug" or k >= own]
    if arguments == ["--version"]:
        from importlib.metadata import version

        print(f"headrace {version('headrace')}")
        return
    try:
        app(arguments, prog_name="headrace")
    except HeadraceError as error:
        if is_debug:
            raise
        print(f"headrace: {error}", file=sys.stderr)
        sys.exit(USAGE if isinstance(error, ConfigError) else FAILED)
    except (KeyboardInterrupt, _InterruptedError):
        print("headrace: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has enough, as in `headrace index ... | head`.
        sys.stdout = None
        sys.exit(FAILED)
