"""`headrace bench`: benchmarks on the user's own videos and machine."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.bench_all import OUT, command_of_all
from headrace.cli.config_flags import JSON, configured, parameters, with_parameters
from headrace.cli.progress import progress
from headrace.cli.sources import check_videos
from headrace.cli.typer_commands import CommandList, build_command

if TYPE_CHECKING:
    from headrace.bench.benchmark import Benchmark


class _Benchmarks(CommandList):
    """One command per registered benchmark, `all`, and `FILE.py` for a custom benchmark."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return `all`, then the benchmarks in registry order; imports them."""
        from headrace.bench.registry import BENCHMARKS

        if not self.commands:
            self.commands["all"] = command_of_all()
            self.commands.update(
                {benchmark.name: command_of(benchmark) for benchmark in BENCHMARKS}
            )
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, or None for an unknown name; runs the code of a `.py` file."""
        self.list_commands(ctx)
        if cmd_name.endswith(".py"):
            from headrace.bench.registry import load_benchmark

            print(
                f"running the code of {cmd_name} with your permissions", file=sys.stderr, flush=True
            )
            return command_of(load_benchmark(Path(cmd_name)))
        return super().get_command(ctx, cmd_name)


bench = typer.Typer(
    cls=_Benchmarks,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run benchmarks on your own videos and machine.",
)


def command_of(benchmark: "Benchmark[Any, Any, Any]") -> Any:
    """Return the Click command of a benchmark."""

    def run(out: Path, json: bool, **typed: Any) -> None:
        _run(benchmark, configured(benchmark.config, typed), out, as_json=json)

    options = [*parameters(benchmark.config), OUT, JSON]
    return build_command(benchmark.name, with_parameters(run, options, benchmark.summary))


def _run(benchmark: "Benchmark[Any, Any, Any]", config: Any, out: Path, *, as_json: bool) -> None:
    """Measure, write the record, table and chart into `out`, and print the result."""
    from headrace.bench.benchmark import Context, make_folder, write_benchmark
    from headrace.measuring.interleaved import unheard
    from headrace.profiling.machine import describe_machine
    from headrace.report.benchmark_page import machine_line, render_benchmark_text

    # Silences the start and end messages of PyTorch's profiler on stderr.
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
            command=command,
            on_progress=on_progress,
            on_word=unheard if as_json else partial(print, file=sys.stderr, flush=True),
            out=out,
        )
        record = benchmark.run(config, context)
    page = benchmark.page(record)
    files = write_benchmark(benchmark, record, page, out)
    if as_json:
        print(record.model_dump_json())
        return
    print(render_benchmark_text(page))
    print("\n".join(f"{label}: {path}" for label, path in files.items()))
