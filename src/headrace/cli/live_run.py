"""Live runs of `headrace run`: start, page, progress line."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from headrace.cli.progress import print_above, progress_line
from headrace.cli.save_session import execute, run_as_launched
from headrace.cli.signals import Ending

if TYPE_CHECKING:
    from headrace.profiling.session import Session, Step
    from headrace.runs.live.live_session import LiveRunner
    from headrace.runs.live.status_board import Notice
    from headrace.runs.run_options import RunOptions
    from headrace.sinks.web.web_options import WebOptions

LogFormat = Literal["text", "json"]
_RATE_STEPS = 60
"""Latest steps that the rate of the progress line averages over."""


def run_live(
    options: "RunOptions",
    web: "WebOptions | None",
    ending: Ending,
    *,
    is_dry: bool,
    is_quiet: bool,
    log_format: LogFormat,
) -> "Session | None":
    """Run live sources and write the output folder; return None for a dry run."""
    from headrace.runs.live.live_session import LiveRunner

    def run(runner: LiveRunner) -> "Session":
        with _with_view(runner, web, is_quiet=is_quiet) as viewed:
            return _with_progress(viewed, is_quiet=is_quiet, log_format=log_format)

    return execute(
        LiveRunner,
        options,
        ending,
        plan=lambda runner: f"{', '.join(runner.names)} would be read",
        with_progress=run,
        is_dry=is_dry,
        is_quiet=is_quiet,
    )


@contextmanager
def _with_view(
    runner: "LiveRunner", web: "WebOptions | None", *, is_quiet: bool
) -> "Iterator[LiveRunner]":
    """Yield the runner with its window or web page, which closes after the block."""
    from headrace.sinks.web.open_page import open_web_view
    from headrace.sinks.window import WindowView

    names, board = runner.names, runner.new_board()
    if runner.options.flow.view == "window":
        yield replace(runner, sinks=(WindowView(board.title, names),))
    elif web is not None:
        with open_web_view(web, board.status, names) as page:
            label = "Watch it at" if web.with_page else "Metrics at"
            hint = "" if web.token is None else ", with ?token= and your token"
            print(
                f"{label} {page.url}{hint}", file=sys.stderr if is_quiet else sys.stdout, flush=True
            )
            # Without a page no browser requests images.
            sinks = (page,) if web.with_page else ()
            yield replace(runner, sinks=sinks, board=board)
    else:
        yield runner


def _with_progress(runner: "LiveRunner", *, is_quiet: bool, log_format: LogFormat) -> "Session":
    """Run with one line per event on stderr, and a progress line on a terminal."""
    from collections import deque

    from rich.progress import TimeElapsedColumn

    recent: deque[Step] = deque(maxlen=_RATE_STEPS)
    frames = 0
    columns = ("{task.description}", TimeElapsedColumn())
    is_json = log_format == "json"
    with progress_line(*columns, is_quiet=is_quiet or is_json) as progress:
        task = progress.add_task("waiting for the first frame", total=None)

        def show(step: "Step") -> None:
            nonlocal frames
            frames += step.frames
            recent.append(step)
            progress.update(task, description=_line(frames, recent[0], recent[-1], len(recent)))

        def print_notice(notice: "Notice") -> None:
            print_above(progress, notice.json() if is_json else f"headrace: {notice.text()}")

        return run_as_launched(replace(runner, on_notice=print_notice), show)


def _line(frames: int, first: "Step", last: "Step", steps: int) -> str:
    """Return `1,234 frames, 29.9 frames/s, latency 34 ms`."""
    seconds = (last.ended_ms - first.ended_ms) / 1e3
    per_step = last.frames
    rate = f", {(steps - 1) * per_step / seconds:.1f} frames/s" if seconds > 0 else ""
    latency = ""
    if last.arrived_ms is not None:
        latency = f", latency {last.ended_ms - last.arrived_ms:.0f} ms"
    return f"{frames:,} frames{rate}{latency}"
