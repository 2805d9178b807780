"""What bench modes shows: rows, comments and charts, from its record alone."""

from typing import Final

import plotly.graph_objects as go

from headrace.bench.benchmark import Experiment
from headrace.bench.scenarios import ModesConfig, ModesRecord, ModesRow, measure_modes, rows_of
from headrace.measuring.interleaved import AGAIN, Trust
from headrace.profiling.findings.finding import Finding
from headrace.report.drawing import MARK, PLAIN, Chart, draw
from headrace.report.experiment import Column
from headrace.report.numbers import decimal, milliseconds, percent, seconds

_STEADY: Final = 0.05
"""Below this FPS CV the frame rate is steady."""
_ROOM: Final = 1.1
"""Times the rate of the video from which a pipeline keeps up on the whole."""
_WORDS: Final = {"offline": "offline", "realtime": "real time"}


def _answer(record: ModesRecord, rows: tuple[ModesRow, ...]) -> tuple[Finding, ...]:
    offline, live = rows
    asked = f"{decimal(record.frame_rate)} frames/s"
    trust = Trust.of(rows, record.provenance.machine.usable_cores)
    p95 = "" if live.latency_p95 is None else f", p95 latency {milliseconds(live.latency_p95)}"
    if live.drop_share:
        headline = (
            f"In real time {percent(live.drop_share)} of the frames are dropped: "
            f"{decimal(live.rate.median)} of {asked} come out{p95}"
        )
        if trust.is_disturbed:
            headline = f"Other programs ran meanwhile, so it may keep up without them. {headline}"
    else:
        headline = f"Real time keeps up with {asked}{p95}, nothing dropped"
    evidence = [
        f"Offline the same pipeline makes {decimal(offline.rate.median)} frames/s, "
        f"{decimal(offline.rate.median / record.frame_rate)} times what the video asks for; "
        f"processors {percent(offline.cores)} of one core busy, in real time "
        f"{percent(live.cores)}.",
        _no_latency(offline),
        *_steadiness(offline, live),
        f"The model was ready after {seconds(record.model_seconds)}, and the first second of each "
        "turn is left out.",
        *trust.sentences("Turns of one mode"),
    ]
    return (Finding(headline=headline, evidence=tuple(evidence), change=_change(record, rows)),)


def _no_latency(offline: ModesRow) -> str:
    if offline.service_p50 is None:
        return "Offline there is no latency: a frame is there before it is asked for."
    return (
        f"Offline a batch takes {milliseconds(offline.service_p50)} of work (median); that is no "
        "latency, as a frame of a file is there before it is asked for."
    )


def _steadiness(offline: ModesRow, live: ModesRow) -> list[str]:
    said = []
    if offline.jitter is not None and live.jitter is not None:
        smaller = "less" if live.jitter < offline.jitter else "no less"
        said.append(
            f"Latency jitter (std of the intervals between results) is {smaller} in real time: "
            f"{milliseconds(live.jitter)}, offline {milliseconds(offline.jitter)}."
        )
    if offline.fps_cv is None or live.fps_cv is None:
        said.append("FPS CV needs ten whole seconds: give --seconds 13 or more.")
        return said
    words = {
        (True, True): "Frames per second are steady in both modes",
        (True, False): "Frames per second are steady in real time, where the timetable makes them",
        (False, True): "Frames per second are steady offline only",
        (False, False): "Frames per second are steady in neither mode",
    }[live.fps_cv < _STEADY, offline.fps_cv < _STEADY]
    said.append(
        f"{words}: FPS CV {decimal(live.fps_cv)} in real time, {decimal(offline.fps_cv)} offline "
        f"(steady is below {_STEADY:g})."
    )
    return said


def _change(record: ModesRecord, rows: tuple[ModesRow, ...]) -> str:
    offline, live = rows
    trust = Trust.of(rows, record.provenance.machine.usable_cores)
    if live.drop_share and trust.is_disturbed:
        return AGAIN
    if live.drop_share and offline.rate.median > _ROOM * record.frame_rate:
        return (
            "It is fast enough on the whole; frames were dropped in moments in which it was not. "
            "--queue 8 of headrace run, with a longer --max-staleness, lets them wait instead: "
            "fewer drops, more latency."
        )
    if live.drop_share:
        return (
            "--stride of headrace run, so that fewer frames are asked for, or a lighter model; "
            "offline no frame is lost."
        )
    if offline.rate.median > 2 * record.frame_rate:
        return (
            "There is room: headrace bench live --search streams tells how many such streams "
            "keep a promised latency."
        )
    return "headrace bench live tells how much more keeps a promised latency."


def _chart(rows: tuple[ModesRow, ...]) -> Chart:
    lines = [
        go.Scatter(
            name=_WORDS[row.mode],
            x=list(range(1, len(row.per_second) + 1)),
            y=list(row.per_second),
            mode="lines+markers",
            line={"color": color, "width": 1.8},
            hovertemplate="%{y} frames/s",
        )
        for row, color in zip(rows, (PLAIN, MARK), strict=True)
    ]
    figure = draw(lines, height=320, hovermode="x unified")
    figure.update_xaxes(title_text="second of the turn")
    figure.update_yaxes(title_text="frames/s", rangemode="tozero")
    return Chart(
        name="frame-rate",
        title="Frames per second over time",
        reading="Frames that came out in each whole second of one turn. Flat is steady; offline is "
        "as fast as the pipeline can, real time as fast as the video is played.",
        figure=figure,
    )


def _ms(value: float | None, missing: str = "-") -> str:
    return missing if value is None else decimal(value)


MODES: Final[Experiment[ModesConfig, ModesRecord, ModesRow]] = Experiment(
    name="modes",
    summary="Run one video offline and as it would be played; compare latency and steadiness.",
    config=ModesConfig,
    record=ModesRecord,
    measure=measure_modes,
    title=lambda record: (
        f"Offline and in real time: a video of {decimal(record.frame_rate)} frames/s"
    ),
    rows=rows_of,
    columns=(
        Column("mode", lambda row: _WORDS[row.mode]),
        Column("frames/s", lambda row: decimal(row.rate.median)),
        Column("service ms", lambda row: _ms(row.service_p50)),
        Column("p50 ms", lambda row: _ms(row.latency_p50)),
        Column(
            "p95 ms", lambda row: _ms(row.latency_p95, "-" if row.mode == "offline" else "n small")
        ),
        Column("jitter ms", lambda row: _ms(row.jitter)),
        Column("FPS CV", lambda row: _ms(row.fps_cv)),
        Column("dropped", lambda row: percent(row.drop_share)),
        Column("CPU", lambda row: percent(row.cores)),
    ),
    reading=lambda record, rows: (
        "Medians over the turns. Service is the work on a batch, all stages together; p50 and p95 "
        "are latency, from when a frame was due until it had been shown: offline there is none. "
        "Jitter is the standard deviation of the intervals between results, FPS CV standard "
        "deviation ÷ mean of the frames per second. A video that is shorter than a turn begins "
        "again."
    ),
    answer=_answer,
    charts=lambda rows: (_chart(rows),),
    names_machine=True,
)
