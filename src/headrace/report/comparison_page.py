"""Report of a comparison: verdict, environment differences and figures, as text and HTML."""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import PurePath
from textwrap import shorten
from typing import Any, Final

import plotly.graph_objects as go

from headrace.profiling.comparison import Comparison, Difference, RunComparison
from headrace.profiling.environment_diff import command_without_outputs
from headrace.profiling.figures import WAIT, Unit
from headrace.profiling.findings.finding import Finding
from headrace.profiling.number_format import decimal, gibibytes, milliseconds
from headrace.profiling.number_format import fine_percent as percent
from headrace.profiling.provenance import TRIED, Provenance
from headrace.report.page import MARK, PLAIN, Chart, draw, label, render_page
from headrace.report.text import (
    WIDTH,
    aligned,
    banner_lines,
    finding_lines,
    join_lines,
    machine_rows,
    wrap,
)

_PAGE: Final = "comparison.html.j2"
_WITH_OUT: Final = (["run"], ["retrain"], ["profile"])
"""Commands with an output folder, `--out`."""
_LOOP: Final = re.compile(r"loop_\d+")
"""Name of the folder of one of several loops."""
_MAX_COMMAND: Final = 150
"""Max characters of a command in the text; the page has all."""
_THROUGHPUT: Final = "Throughput"
_UNSHOWN: Final = ("no difference shown", "inconclusive")
HEADERS: Final = ("figure", "change", "95 % interval", "verdict")
_READING: Final = (
    "The interval is a 95 % confidence interval over the steps of these runs, by a block bootstrap "
    "with 2,000 draws, widened by an assumed spread from run to run: 2 % of a step, and "
    "more of its parts (20 % of a part that takes 1 % of a step). Smaller differences need "
    "repeats. CPU time and memory are one number per run and have no interval."
)
_READING_REPEATS: Final = (
    "The interval is a 95 % confidence interval over the runs, by Student's t; the spread from run "
    "to run is taken as equal on both sides. By chance, about one of 20 equal figures is shown as "
    "different."
)
_READING_LOOPS: Final = (
    " Loops record no input: make sure that all of them read the same data. Times are as measured, "
    "waits for a core included: where workers use the cores, a step can take longer although the "
    "loop is faster. The gain of headrace profile --apply-advice may leave out these waits, and "
    "states if it does."
)


def render_comparison_text(comparison: Comparison) -> str:
    """Return verdict, environment differences and figures as text, ending in a newline."""
    base, lines = comparison.names[0], list[str]()
    for run, finding in zip(comparison.runs, conclusions(comparison), strict=True):
        lines += banner_lines(" ".join(run.disturbances))
        lines += finding_lines((finding,))
        lines += [*_difference_lines(run, base), *_figure_lines(run, base)]
    lines += wrap(reading(comparison), WIDTH)
    return join_lines(lines)


def render_comparison(comparison: Comparison) -> str:
    """Return the self-contained HTML page; cost: see `render_page`."""
    base = comparison.names[0]
    return render_page(
        _PAGE,
        tuple(_chart(run, base, index) for index, run in enumerate(comparison.runs)),
        comparison=comparison,
        base=base,
        runs=[
            (run, finding, _rows(run))
            for run, finding in zip(comparison.runs, conclusions(comparison), strict=True)
        ],
        headers=HEADERS,
        reading=reading(comparison),
        provenances=[
            (name, shlex.join(provenance.command), _provenance_rows(provenance))
            for name, provenance in zip(comparison.names, comparison.provenances, strict=True)
        ],
    )


def reading(comparison: Comparison) -> str:
    """Return the explanation of the intervals."""
    has_repeats = {
        any(figure.between is not None for figure in run.differences) for run in comparison.runs
    }
    words = {True: f"Of repeats: {_READING_REPEATS}", False: f"Of single runs: {_READING}"}
    text = _READING_REPEATS if True in has_repeats else _READING
    if len(has_repeats) > 1:
        text = " ".join(words.values())
    is_loop = any(figure.name == WAIT for run in comparison.runs for figure in run.differences)
    return text + _READING_LOOPS if is_loop else text


def conclusions(comparison: Comparison) -> list[Finding]:
    """Return one finding per run; its evidence is the figures that differ."""
    base, first = comparison.names[0], comparison.provenances[0]
    return [
        _conclude_disturbed(run, base, (first, other)) if run.disturbances else conclude(run, base)
        for run, other in zip(comparison.runs, comparison.provenances[1:], strict=True)
    ]


def _conclude_disturbed(
    run: RunComparison, base: str, provenances: tuple[Provenance, Provenance]
) -> Finding:
    """Return the finding of a run that other programs disturbed."""
    throughput = _find_throughput(run)
    evidence: tuple[str, ...] = ()
    if throughput is not None and throughput.interval:
        evidence = (f"As measured, {_rate_text(throughput)}.",)
    return Finding(
        headline=f"Inconclusive between {run.name} and {base}: other programs used the CPU.",
        evidence=evidence,
        change="Repeat both when the machine is quiet, or in turns, and compare the repeats"
        f"{_repeat_commands((base, run.name), provenances)}",
    )


def _repeat_commands(names: tuple[str, str], provenances: tuple[Provenance, Provenance]) -> str:
    """Return shell commands: repeats of two runs, in turns, and their comparison.

    A run with `--apply-advice` and its tried run are repeated by one command. Only `.` if a command
    has no output folder, or the names of both folders are equal.
    """
    commands = [command_without_outputs(provenance) for provenance in provenances]
    are_tried = [TRIED in provenance.configuration for provenance in provenances]
    folders, inside = zip(*map(_split_folder, names, are_tried), strict=True)
    if commands[0] == commands[1] and are_tried[0] != are_tried[1]:
        folders, commands = ("r", "r"), commands[:1]
    elif folders[0] == folders[1] or "" in folders:
        return "."
    if any(words[1:2] not in _WITH_OUT for words in commands):
        return "."
    runs = [
        f"{shlex.join(words[:2])} --out {folder}$k {shlex.join(words[2:])}"
        for folder, words in zip(folders, commands, strict=False)
    ]
    repeats = " -- ".join(
        " ".join(f"{folder}{k}{path}" for k in (1, 2, 3))
        for folder, path in zip(folders, inside, strict=True)
    )
    return f":\nfor k in 1 2 3; do {'; '.join(runs)}; done;\nheadrace compare {repeats}"


def _split_folder(name: str, is_tried: bool) -> tuple[str, str]:
    """Return the start of the names of repeated folders, and the path of the run inside of them.

    `a/loop_2`, or a side with several runs, is repeated as `a_1/loop_2`.
    """
    path, inside = PurePath(name.partition(", ")[0]), ""
    if _LOOP.fullmatch(path.name):
        path, inside = path.parent, f"/{path.name}"
    start = f"{shlex.quote(path.name)}_" if path.name else ""
    return start, f"/{TRIED}{inside}" if is_tried else inside


def _find_throughput(run: RunComparison) -> Difference | None:
    return next((figure for figure in run.differences if figure.name == _THROUGHPUT), None)


def conclude(run: RunComparison, base: str) -> Finding:
    """Return the finding of an undisturbed run."""
    shown = [figure for figure in run.differences if figure.verdict in ("better", "worse")]
    throughput = _find_throughput(run)
    if throughput is not None and throughput in shown:
        speed = "faster" if throughput.verdict == "better" else "slower"
        headline = f"{run.name} is {speed} than {base}: {_rate_text(throughput)}."
    elif throughput is not None and throughput.verdict == "not known":
        headline = f"{run.name} and {base} have too few steps to show a difference in throughput."
    elif shown:
        headline = f"No difference shown in throughput between {run.name} and {base}."
    else:
        headline = f"No difference shown between {run.name} and {base}."
    evidence = [
        f"{figure.name}: {_change_text(figure)}, {figure.verdict}"
        for figure in shown
        if figure is not throughput
    ]
    if throughput is not None and throughput.least is not None:
        evidence.append(_precision(throughput))
    return Finding(headline=headline, evidence=tuple(evidence))


def _precision(throughput: Difference) -> str:
    """Return the spread of throughput, and the smallest change that would have been shown."""
    sentences = []
    if throughput.between is not None:
        sentences.append(f"Throughput varies by {percent(throughput.between)} from run to run.")
    if throughput.within is not None:
        within = percent(throughput.within)
        sentences.append(f"The throughput of one run has a standard error of {within}.")
    drop, rise = map(percent, throughput.least or (0.0, 0.0))
    sentences.append(
        f"Only a drop of at least {drop}, or a rise of at least {rise}, would have been shown."
    )
    return " ".join(sentences)


def amount(value: float, unit: Unit) -> str:
    """`25.3 frames/s`, `512 samples/s`, `37.2 ms`, `0.79 GiB`."""
    match unit:
        case "bytes":
            return gibibytes(round(value))
        case "frames/s" | "samples/s":
            return f"{decimal(value)} {unit}"
        case _:
            return milliseconds(value)


def signed(share: float) -> str:
    """`+12 %`, `−3.4 %`."""
    return f"{'−' if share < 0 else '+'}{percent(share)}"


def _change_text(figure: Difference) -> str:
    if figure.change is None or figure.interval is None:
        return "changed"
    low, high = figure.interval
    return f"{signed(figure.change)} ({signed(low)} to {signed(high)})"


def _rate_text(throughput: Difference) -> str:
    """`+12 % (+9 % to +15 %) frames per second`."""
    return f"{_change_text(throughput)} {throughput.unit.replace('/s', ' per second')}"


def _rows(run: RunComparison) -> list[tuple[str, ...]]:
    """Return (figure, first, other, change, interval, verdict) rows."""
    return [
        (
            f"{figure.name}{', per frame' if figure.unit == 'ms per frame' else ''}",
            amount(figure.first, figure.unit),
            amount(figure.other, figure.unit),
            "–" if figure.change is None else signed(figure.change),
            "–" if figure.interval is None else " to ".join(map(signed, figure.interval)),
            _verdict(figure),
        )
        for figure in run.differences
    ]


def _verdict(figure: Difference) -> str:
    if figure.verdict != "not known":
        return figure.verdict
    return "one number per run" if figure.is_of_run else "too few steps"


def _difference_lines(run: RunComparison, base: str) -> Iterator[str]:
    number = len(run.circumstances) or "none"
    yield f"Environment differences of {run.name} and {base}: {number}"
    for difference in run.circumstances:
        first, other = difference.first, difference.other
        if difference.part == difference.name:  # the command
            first, other = _shorten_commands(first, other)
            yield f"  {difference.name}"
        else:
            yield f"  {difference.part}: {difference.name}"
        yield from _value_lines(base, first)
        yield from _value_lines(run.name, other)
    for warning in run.warnings:
        yield from wrap(warning, WIDTH, initial_indent="  ! ", subsequent_indent="    ")
    yield ""


def _shorten_commands(*commands: str) -> list[str]:
    """Return commands without their equal words, except for the first two, and cut at the end."""
    words = [command.split(" ") for command in commands]
    equal = len([*takewhile(lambda pair: pair[0] == pair[1], zip(*words, strict=False))])
    if equal > 3:
        words = [[*line[:2], "…", *line[equal:]] for line in words]
    return [shorten(" ".join(line), _MAX_COMMAND, placeholder=" …") for line in words]


def _value_lines(name: str, value: str) -> list[str]:
    return wrap(f"{name}: {value}", WIDTH, initial_indent="    ", subsequent_indent="      ")


def _figure_lines(run: RunComparison, base: str) -> Iterator[str]:
    yield f"Figures: {base}; {run.name}; change"
    yield from aligned([row[:4] for row in _rows(run)])
    yield ""
    yield "Change, with its 95 % interval"
    yield from aligned([(row[0], *row[3:]) for row in _rows(run)])
    yield ""


def _chart(run: RunComparison, base: str, index: int) -> Chart:
    """Return a chart of the changes with their intervals, and a line at 0."""
    shown = [figure for figure in run.differences if figure.interval and figure.change is not None][
        ::-1
    ]
    names = [label(figure.name) for figure in shown]
    changes = [100 * (figure.change or 0.0) for figure in shown]
    ends = [figure.interval or (0.0, 0.0) for figure in shown]
    points = go.Scatter(
        x=changes,
        y=names,
        mode="markers",
        marker={
            "size": 9,
            "color": [PLAIN if figure.verdict in _UNSHOWN else MARK for figure in shown],
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [100 * high - change for change, (_, high) in zip(changes, ends, strict=True)],
            "arrayminus": [
                change - 100 * low for change, (low, _) in zip(changes, ends, strict=True)
            ],
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
        name=f"changes-{index}",
        title=f"{run.name} against {base}",
        reading="Change of each figure with its 95 % interval; an interval over 0 shows no "
        "difference. Right of 0 is an increase: better for throughput, worse for the others.",
        figure=figure,
    )


def _provenance_rows(provenance: Provenance) -> Sequence[tuple[str, str]]:
    return [
        ("Recorded", provenance.created.strftime("%Y-%m-%d %H:%M:%S UTC")),
        ("headrace", f"{provenance.headrace}, commit {provenance.commit or 'not known'}"),
        *machine_rows(provenance.machine),
        *provenance.versions.items(),
    ]
