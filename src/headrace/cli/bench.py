"""`headrace bench`: benchmarks on the user's own videos and machine, one or all of them."""

import json as json_format
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from headrace.cli.app import CommandList, build_command
from headrace.cli.config_flags import JSON, configured, option, parameters, with_parameters
from headrace.cli.progress import is_silenced, print_above, progress, progress_line
from headrace.cli.signals import ending_on_sigterm
from headrace.cli.sources import check_videos
from headrace.profiling.number_format import counted, seconds

if TYPE_CHECKING:
    from headrace.bench.benchmark import Benchmark
    from headrace.bench.suite.suite_runner import Suite, SuiteObserver
    from headrace.bench.suite.suite_selection import BenchmarkOutcome, Planned, SuiteRecord


class _Benchmarks(CommandList):
    """One command per registered benchmark, `all`, and `FILE.py` for a custom benchmark."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return `all`, then the benchmarks in registry order; imports them."""
        from headrace.bench.registry import BENCHMARKS
        from headrace.bench.suite.suite_selection import SuiteConfig

        if not self.commands:
            summary = "All benchmarks in one report, the largest gain first."
            options = [*parameters(SuiteConfig), *_OPTIONS_OF_ALL]
            run_all = with_parameters(_bench_all, options, summary)
            self.commands["all"] = build_command("all", run_all)
            self.commands.update(
                {benchmark.name: _command_of(benchmark) for benchmark in BENCHMARKS}
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
            return _command_of(load_benchmark(Path(cmd_name)))
        return super().get_command(ctx, cmd_name)


bench = typer.Typer(
    cls=_Benchmarks,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run benchmarks on your own videos and machine.",
)


def _command_of(benchmark: "Benchmark[Any, Any, Any]") -> Any:
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
    from headrace.report.text import WIDTH, wrap

    # Silences the start and end messages of PyTorch's profiler on stderr.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    check_videos(getattr(config, "videos", ()))
    make_folder(out)
    if benchmark.names_machine and not as_json:
        print("\n".join(wrap(machine_line(describe_machine()), WIDTH)), flush=True)
    if benchmark.announce is not None and not as_json:
        print("\n".join(wrap(benchmark.announce(config), WIDTH)), flush=True)
    with progress(is_quiet=as_json) as on_progress:
        context = Context(
            command=("headrace", *sys.argv[1:]),
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


OUT: Final = option("out", Path, Path("headrace_bench"), "Output folder.")
_OPTIONS_OF_ALL: Final = (
    OUT,
    option("only", str, "", "Run only these benchmarks, separated by commas.", metavar="NAMES"),
    option("skip", str, "", "Run all but these, separated by commas.", metavar="NAMES"),
    option("again", bool, False, "Repeat benchmarks that the folder has results of.", "--rerun"),
    option(
        "dry_run", bool, False, "List the benchmarks and their duration; run none.", "--dry-run"
    ),
    JSON,
)


def _bench_all(
    *, out: Path, only: str, skip: str, again: bool, dry_run: bool, json: bool, **typed: Any
) -> None:
    """Run the benchmarks with one model, and write their report."""
    from headrace.bench.registry import BENCHMARKS
    from headrace.bench.suite.suite_runner import measure_registered, prepare_suite
    from headrace.bench.suite.suite_selection import Choice, SuiteConfig

    suite = prepare_suite(
        BENCHMARKS,
        configured(SuiteConfig, typed),
        Choice(only=_names("--only", only), skip=_names("--skip", skip), again=again),
        folder=out,
        command=("headrace", *sys.argv[1:]),
        measure=measure_registered,
    )
    if dry_run:
        _list(suite, as_json=json)
    else:
        run_suite(suite, as_json=json)


def run_suite(suite: "Suite", *, as_json: bool) -> None:
    """Run a suite, print its results, and exit with its code."""
    from headrace.report.text import printable

    if not as_json:
        print(_announcement(suite), flush=True)
    with ending_on_sigterm() as ending:
        with progress_of_suite(is_quiet=as_json) as observer:
            record, is_interrupted = suite.run(observer)
        is_empty = all(result.outcome != "measured" for result in record.chapters)
        if not (is_interrupted and is_empty):
            _conclude(suite, record, as_json=as_json)
        if is_interrupted:
            state = (
                "no benchmark had finished"
                if is_empty
                else f"finished benchmarks are kept in {suite.folder}"
            )
            print(f"headrace: interrupted; {state}", file=sys.stderr)
            raise typer.Exit(ending.exit_code)
    failed = [result for result in record.chapters if result.outcome == "failed"]
    for result in failed:
        print(printable(f"headrace: {result.experiment} failed: {result.why}"), file=sys.stderr)
        for line in result.last_lines:
            print(f"  {printable(line)}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _names(flag: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if text and not names:
        raise typer.BadParameter(
            f"must be names separated by commas, got {text!r}", param_hint=f"'{flag}'"
        )
    return names


def _announcement(suite: "Suite") -> str:
    due, num_before = len(suite.due), sum(planned.result.is_taken for planned in suite.planned)
    before = f"; {num_before} measured before" if num_before else ""
    duration = f", about {_duration(suite.seconds)}" if due else ""
    return f"To measure: {counted(due, 'benchmark')}{duration}{before}. Folder: {suite.folder}"


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min" if seconds >= 90 else f"{seconds:.0f} s"


def _list(suite: "Suite", *, as_json: bool) -> None:
    """Print the state of each benchmark, for a dry run."""
    from headrace.report.text import listed, printable

    if as_json:
        planned = [
            {
                **planned.result.model_dump(mode="json", exclude={"outcome", "seconds", "created"}),
                "is_due": planned.is_due,
                "why": None if planned.is_due else planned.result.why,
                "about_seconds": planned.benchmark.terms.seconds if planned.is_due else None,
            }
            for planned in suite.planned
        ]
        print(json_format.dumps({"folder": str(suite.folder), "experiments": planned}))
        return
    print(_announcement(suite))
    in_order = (*suite.due, *(planned for planned in suite.planned if not planned.is_due))
    print("\n".join(map(printable, listed([_list_row(planned) for planned in in_order]))))


def _list_row(planned: "Planned") -> tuple[str, str, str]:
    """Return the name, state, and options or reason of a benchmark."""
    result, name = planned.result, planned.benchmark.name
    if planned.is_due:
        is_option = [word.startswith("--") for word in result.alone]
        options = result.alone[is_option.index(True) :] if any(is_option) else ()
        duration = f"about {_duration(planned.benchmark.terms.seconds)}"
        return name, duration, " ".join(options) or "with default options"
    if result.is_taken and result.created is not None:
        return name, "measured before", f"{result.created:%Y-%m-%d %H:%M} UTC"
    return name, result.outcome, result.why or ""


def _conclude(suite: "Suite", record: "SuiteRecord", *, as_json: bool) -> None:
    """Print the results and write the page."""
    from headrace.bench.suite.ranking import rank
    from headrace.bench.suite.suite_page import PAGE, render_suite_text, suite_json, write_page
    from headrace.bench.suite.suite_selection import SUITE

    folder = suite.folder
    ranking = rank([planned.benchmark for planned in suite.planned], record, folder)
    files = {"report": folder / PAGE, "record": folder / SUITE}
    print(suite_json(ranking, folder, files) if as_json else render_suite_text(ranking))
    # Last, so that the results are printed even on a full disk.
    write_page(ranking, folder)
    if not as_json:
        print(f"Report: {files['report']}\nRecord: {files['record']}")


@contextmanager
def progress_of_suite(*, is_quiet: bool) -> "Iterator[SuiteObserver]":
    """Show the benchmark in progress; print a line for each finished one."""
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    from headrace.bench.suite.suite_runner import SuiteObserver
    from headrace.report.text import printable

    measured = ""
    description = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), description, TimeElapsedColumn())
    with progress_line(*columns, is_quiet=is_quiet) as line:

        def begin(planned: "Planned", number: int, of: int) -> None:
            nonlocal measured
            measured = f"{number} of {of}: {planned.benchmark.name}"
            for task in line.task_ids:
                line.remove_task(task)
            line.add_task(measured, total=None)

        def progress(description: str, done: int, total: int) -> None:
            position = f" ({done + 1} of {total})" if total else ""
            text = printable(f"{measured}, {description}{position}")
            for task in line.task_ids:
                line.update(task, description=text, completed=done, total=total or None)

        def end(result: "BenchmarkOutcome", number: int, of: int) -> None:
            reason = f": {result.why}" if result.why else ""
            after = f" after {seconds(result.seconds)}" if result.seconds is not None else ""
            text = f"{number} of {of}: {result.experiment} {result.outcome}{after}{reason}"
            if not (is_quiet or is_silenced()):
                print_above(line, printable(text))

        yield SuiteObserver(on_begin=begin, on_progress=progress, on_end=end)
