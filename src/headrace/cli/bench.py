"""`headrace bench`: benchmarks on the user's own videos and machine."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.bench_all import OUT, command_of_all
from headrace.cli.config_flags import JSON, configured, parameters, with_parameters
from headrace.cli.progress import progress
from headrace.cli.sources import check_videos
from headrace.cli.usage_errors import CommandList

if TYPE_CHECKING:
    from headrace.bench.benchmark import Benchmark


class _Benchmarks(CommandList):
    """A command for each registered benchmark, imported when one of them is asked for, one for all
    of them, and one for a file that defines one."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names in the order of the registry, behind that for all."""
        from headrace.bench.registry import BENCHMARKS

        if not self.commands:
            self.commands["all"] = command_of_all()
            self.commands.update(
                {benchmark.name: command_of(benchmark) for benchmark in BENCHMARKS}
            )
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, None if there is none of this name; of a file, it runs its code."""
        self.list_commands(ctx)
        if cmd_name.endswith(".py"):
            return _command_of_file(Path(cmd_name))
        return super().get_command(ctx, cmd_name)


bench = typer.Typer(
    cls=_Benchmarks,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure on your own videos and machine.",
)


def _command_of_file(path: Path) -> Any:
    from headrace.bench.registry import load_benchmark

    print(f"{path} is run: its code can do what you can", file=sys.stderr, flush=True)
    return command_of(load_benchmark(path))


def command_of(benchmark: "Benchmark[Any, Any, Any]") -> Any:
    """Return the command that runs a benchmark: call it with a list of arguments."""

    def run(out: Path, json: bool, **typed: Any) -> None:
        _run(benchmark, configured(benchmark.config, typed), out, as_json=json)

    options = [*parameters(benchmark.config), OUT, JSON]
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(benchmark.name)(with_parameters(run, options, benchmark.summary))
    return typer.main.get_command(app)


def _run(benchmark: "Benchmark[Any, Any, Any]", config: Any, out: Path, *, as_json: bool) -> None:
    """Measure, write numbers, table and chart into `out`, and print them."""
    from headrace.bench.benchmark import Context, make_folder, write_benchmark
    from headrace.measuring.interleaved import unheard
    from headrace.profiling.machine import describe_machine
    from headrace.report.benchmark_page import machine_line, render_benchmark_text

    # PyTorch's profiler says on stderr that it starts and ends, unless it is set before.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    check_videos(getattr(config, "videos", ()))
    make_folder(out)
    if benchmark.names_machine and not as_json:
        print(machine_line(describe_machine()), flush=True)

    if benchmark.announce is not None and not as_json:
        print(benchmark.announce(config), flush=True)
    with progress(is_quiet=as_json) as on_progress:
        command = ("headrace", *sys.argv[1:])
        context = Context(
            command=command, on_progress=on_progress, on_word=unheard if as_json else _say, out=out
        )
        record = benchmark.run(config, context)
    page = benchmark.page(record)
    files = write_benchmark(benchmark, record, page, out)
    if as_json:
        print(record.model_dump_json())
        return
    print(render_benchmark_text(page))
    print("\n".join(f"{held}: {path}" for held, path in files.items()))


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
