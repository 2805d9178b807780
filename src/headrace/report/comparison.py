"""A comparison of runs as text and as a page: verdict, what differs around them, figures."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from textwrap import wrap
from typing import Any, Final

import plotly.graph_objects as go

from headrace.profiling.comparison.comparison import Comparison, Difference, RunComparison
from headrace.profiling.comparison.environment_diff import command_without_out
from headrace.profiling.comparison.figures import Unit
from headrace.profiling.findings.finding import Finding
from headrace.profiling.number_format import counted, decimal, gibibytes, milliseconds
from headrace.profiling.provenance import Provenance
from headrace.report.drawing import MARK, PLAIN, Chart, draw, label
from headrace.report.page import render_page
from headrace.report.text import (
    aligned,
    banner_lines,
    finding_lines,
    machine_rows,
    printable,
)

_PAGE: Final = "comparison.html.j2"
_WIDTH: Final = 80
_WITH_OUT: Final = (("run",), ("retrain",))
"""Commands whose results go to the folder of `--out`."""
_THROUGHPUT: Final = "Throughput"
_UNSHOWN: Final = ("no difference shown", "cannot be told")
HEADS: Final = ("figure", "change", "95 % interval", "verdict")
READING: Final = (
    "The interval holds the true change in 95 of 100 comparisons, as far as steps tell: blocks of "
    "them are drawn again 2,000 times. How one run of the same differs from the next is not in it. "
    "Of 20 figures that do not differ, one is still said to. CPU time and memory are one number "
    "for a whole run and have no interval."
)


def render_comparison_text(comparison: Comparison) -> str:
    """The verdict, what differs around the runs, their figures; ends in a newline."""
    base, lines = comparison.names[0], list[str]()
    for run, found in zip(comparison.runs, conclusions(comparison), strict=True):
        lines += [*banner_lines(" ".join(run.disturbances)), *finding_lines((found,))]
        lines += [*_circumstance_lines(run, base), *_figure_lines(run, base)]
    lines += wrap(READING, _WIDTH)
    return "\n".join(map(printable, lines)).rstrip() + "\n"


def render_comparison(comparison: Comparison) -> str:
    """The page. Costs and keeps to itself as `render_page` says."""
    base = comparison.names[0]
    return render_page(
        _PAGE,
        tuple(_chart(run, base, k) for k, run in enumerate(comparison.runs)),
        comparison=comparison,
        base=base,
        runs=[
            (run, found, _rows(run))
            for run, found in zip(comparison.runs, conclusions(comparison), strict=True)
        ],
        heads=HEADS,
        reading=READING,
        provenances=[
            (name, shlex.join(made.command), _made(made))
            for name, made in zip(comparison.names, comparison.provenances, strict=True)
        ],
    )


def conclusions(comparison: Comparison) -> list[Finding]:
    """What the figures of each run show, in a sentence, with those that differ as evidence."""
    base, first = comparison.names[0], comparison.provenances[0]
    return [
        _disturbed(run, base, (first, made)) if run.disturbances else conclusion(run, base)
        for run, made in zip(comparison.runs, comparison.provenances[1:], strict=True)
    ]


def _disturbed(run: RunComparison, base: str, made: tuple[Provenance, Provenance]) -> Finding:
    """What is left to say where other programs took the processor."""
    measured = [each for each in run.differences if each.interval and each.name == _THROUGHPUT]
    return Finding(
        headline=f"Cannot be told whether {run.name} is faster or slower than {base}: other "
        "programs took the processor.",
        evidence=tuple(f"As measured, {_changed(each)} frames per second." for each in measured),
        change="Repeat both when the machine is quiet, or in turns, and see whether all turns "
        f"agree{_in_turns((base, run.name), made)}",
    )


def _in_turns(names: tuple[str, str], made: tuple[Provenance, Provenance]) -> str:
    """The commands that repeat two runs in turns; nothing where they have no folder to name."""
    if any(each.command[1:2] not in _WITH_OUT for each in made):
        return "."
    commands = [
        f"{shlex.join(command_without_out(each))} --out {shlex.quote(PurePath(name).name)}_$k"
        for name, each in zip(names, made, strict=True)
    ]
    return f": for k in 1 2 3; do {'; '.join(commands)}; done"


def conclusion(run: RunComparison, base: str) -> Finding:
    """What the figures of an undisturbed run show."""
    shown = [each for each in run.differences if each.verdict in ("better", "worse")]
    throughput = next((each for each in run.differences if each.name == _THROUGHPUT), None)
    if throughput in shown and throughput is not None:
        how = "faster" if throughput.verdict == "better" else "slower"
        headline = f"{run.name} is {how} than {base}: {_changed(throughput)} frames per second."
    elif throughput is not None and throughput.verdict == "not known":
        headline = f"{run.name} against {base}: too few steps to tell a difference in throughput."
    elif shown:
        headline = f"No difference shown in throughput between {run.name} and {base}."
    else:
        headline = f"No difference shown between {run.name} and {base}."
    evidence = tuple(
        f"{each.name}: {_changed(each)}, {each.verdict}" for each in shown if each is not throughput
    )
    return Finding(headline=headline, evidence=evidence)


def amount(value: float, unit: Unit) -> str:
    """`25.3 frames/s`, `37.2 ms`, `0.79 GiB`."""
    match unit:
        case "bytes":
            return gibibytes(round(value))
        case "frames/s":
            return f"{decimal(value)} frames/s"
        case _:
            return milliseconds(value)


def signed(share: float) -> str:
    """`+12 %`, `−3.4 %`."""
    percent = 100 * abs(share)
    digits = f"{percent:,.0f}" if percent >= 9.95 else f"{percent:.1f}"
    return f"{'−' if share < 0 else '+'}{digits} %"


def _changed(each: Difference) -> str:
    if each.change is None or each.interval is None:
        return "changed"
    low, high = each.interval
    return f"{signed(each.change)} ({signed(low)} to {signed(high)})"


def _rows(run: RunComparison) -> list[tuple[str, ...]]:
    """Figure, first, other, change, interval, verdict."""
    return [
        (
            f"{each.name}{', per frame' if each.unit == 'ms per frame' else ''}",
            amount(each.first, each.unit),
            amount(each.other, each.unit),
            "–" if each.change is None else signed(each.change),
            "–" if each.interval is None else " to ".join(map(signed, each.interval)),
            _verdict(each),
        )
        for each in run.differences
    ]


def _verdict(each: Difference) -> str:
    if each.verdict != "not known":
        return each.verdict
    return "one number a run" if each.is_of_run else "too few steps"


def _circumstance_lines(run: RunComparison, base: str) -> Iterator[str]:
    number = counted(len(run.circumstances), "thing")
    yield (
        f"{number} differ around {run.name} and {base}"
        if run.circumstances
        else (f"Nothing differs around {run.name} and {base}: versions, machine, options and input")
    )
    for each in run.circumstances:
        yield f"  {each.part}: {each.name}"
        yield from _beside(base, each.first)
        yield from _beside(run.name, each.other)
    for words in run.warnings:
        yield from wrap(words, _WIDTH, initial_indent="  ! ", subsequent_indent="    ")
    yield ""


def _beside(name: str, value: str) -> list[str]:
    return wrap(f"{name}: {value}", _WIDTH, initial_indent="    ", subsequent_indent="      ")


def _figure_lines(run: RunComparison, base: str) -> Iterator[str]:
    yield f"Figures: {base}, {run.name}, change"
    rows = [(name, *cells[:2], cells[2]) for name, *cells in _rows(run)]
    yield from aligned(rows)
    yield ""
    yield "Change, with its 95 % interval"
    yield from aligned([(row[0], row[3], row[4], row[5]) for row in _rows(run)])
    yield ""


def _chart(run: RunComparison, base: str, place: int) -> Chart:
    """Each change as a point with its interval; the line of no difference through all."""
    shown = [each for each in run.differences if each.interval and each.change is not None][::-1]
    names = [label(each.name) for each in shown]
    changes = [100 * (each.change or 0.0) for each in shown]
    ends = [each.interval or (0.0, 0.0) for each in shown]
    points = go.Scatter(
        x=changes,
        y=names,
        mode="markers",
        marker={
            "size": 9,
            "color": [PLAIN if each.verdict in _UNSHOWN else MARK for each in shown],
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [100 * high - at for at, (_, high) in zip(changes, ends, strict=True)],
            "arrayminus": [at - 100 * low for at, (low, _) in zip(changes, ends, strict=True)],
            "color": PLAIN,
            "thickness": 1.5,
        },
        hovertemplate="%{x:+.1f} %<extra></extra>",
        showlegend=False,
    )
    figure: Any = draw([points], height=70 + 34 * len(shown))
    figure.update_layout(margin={"t": 8})
    figure.update_xaxes(title_text="change in %", zeroline=True, zerolinewidth=1.5)
    figure.update_xaxes(zerolinecolor=PLAIN)
    return Chart(
        name=f"changes-{place}",
        title=f"{run.name} against {base}",
        reading="Change of each figure with its 95 % interval; one that holds the line at 0 "
        "shows no difference. To the right is more: good for throughput, bad for all else.",
        figure=figure,
    )


def _made(made: Provenance) -> Sequence[tuple[str, str]]:
    """When and with what one was recorded."""
    return [
        ("Recorded", made.created.strftime("%Y-%m-%d %H:%M:%S UTC")),
        ("headrace", f"{made.headrace}, commit {made.commit or 'not known'}"),
        *machine_rows(made.machine),
        *made.versions.items(),
    ]
