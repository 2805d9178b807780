"""Results of benchmarks made by hand, for the tests of their tables and verdicts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.conformance.verdict import ConformanceResult, FileRow, Verdict, summarise
from benchmarks.equality import Equality
from benchmarks.live.figures import Quantiles, Series
from benchmarks.live.overload import Overloaded
from benchmarks.live.threads import OverlapCase, OverlapPair
from benchmarks.record import Repeat, Row, TimedResult
from benchmarks.soak import LongLatency, SoakResult
from headrace.profiling.provenance import Machine, Provenance, Scalar

EQUAL = Equality(frames=1200, missing=0, wrong=0, max_mean_difference=0.25)
MEDIA = {
    "recipe": {"size": [720, 1280]},
    "kinds": {"web": {"videos": 4, "frames": 1200, "mean_gop": 77.4, "b_frame_share": 0.69}},
}


def origin(**configuration: Scalar) -> Provenance:
    """Return where a made-up result comes from."""
    return Provenance(
        headrace="0.1.0",
        commit="0123abc",
        created=datetime(2026, 11, 21, tzinfo=UTC),
        command=(),
        configuration=configuration,
        machine=Machine(
            cpu="Some CPU",
            usable_cores=2,
            memory_bytes=8 << 30,
            system="Some Linux, Linux 6.1",
            python="CPython 3.11.7",
        ),
        versions={},
    )


def result(*rows: Row, **configuration: Scalar) -> TimedResult:
    """Return a result with the usual media."""
    said = {"size": "256,256", "workers": 2, "repeats": 3, **configuration}
    return TimedResult(provenance=origin(**said), media=MEDIA, rows=rows)


def row(name: str, speeds: Sequence[float] = (), **about: Any) -> Row:
    """Return a row of repeats of 1,200 frames at these speeds; `about` are fields of both."""
    repeat = {"cpu_seconds": 2.4, "others_cpu_seconds": 0.0, "peak_rss_bytes": 100 << 20}
    repeat |= {key: about.pop(key) for key in list(about) if key in Repeat.model_fields}
    repeats = tuple(Repeat(frames=1200, wall_seconds=1200 / speed, **repeat) for speed in speeds)
    about = {"kind": "web", "versions": {name: "1.0"}, "equality": EQUAL, **about}
    return Row(name=name, repeats=repeats, **about)


def overloaded(**change: Any) -> Overloaded:
    """Return one where everything holds."""
    figures: dict[str, Any] = {
        "provenance": origin(),
        "others_share": 0.01,
        "seconds": 60.0,
        "source_fps": 30.0,
        "model_ms": 100.0,
        "max_staleness_ms": 200.0,
        "age_ms": Quantiles(count=300, p50=150.0, p95=170.0, worst=190.0),
        "arrived": 1000,
        "delivered": 300,
        "in_flight": 1,
        "drops": {"decode: overflow": 690, "model: stale": 9},
        "rss_bytes": Series(at_seconds=(1, 2, 3, 4), values=(9e8, 1e8, 1e8, 1e8)),
        "warm_up_seconds": 2.0,
    }
    return Overloaded(**{**figures, **change})


def soaked(**change: Any) -> SoakResult:
    """Return a run of 400 s that stayed as it was."""
    at = (0.0, 100.0, 200.0, 300.0, 400.0)
    figures: dict[str, Any] = {
        "provenance": origin(),
        "minutes": 400 / 60,
        "source": "rtsp",
        "model": "mobilenet_v2",
        "warm_up_seconds": 100.0,
        "outcome": "complete",
        "frames_per_second": 30.0,
        "latency_ms": LongLatency(base="arrival", count=9999, p50=20, p95=30, p99=40, worst=50),
        "arrived": 12_000,
        "delivered": 11_990,
        "in_flight": 1,
        "drops": {"overflow at decode": 9},
        "others_share": 0.01,
        "rss_bytes": Series(at_seconds=at, values=(9e8, 1e9, 1e9, 1e9, 1e9)),
        "threads": Series(at_seconds=at, values=(4, 15, 15, 14, 15)),
        "open_files": Series(at_seconds=at, values=(13, 10, 10, 10, 10)),
        "pictures": 6000,
        "refused": 0,
    }
    return SoakResult(**{**figures, **change})


def overlap_case(*, sequential: float, threaded: float, cpu: float) -> OverlapCase:
    """Return one pair of 100 frames, whose stages take 5, 10 and 15 ms, on two cores."""
    stages = {"decode": 5.0, "preprocess": 10.0, "model": 15.0}
    pair = OverlapPair(
        sequential_seconds=sequential,
        sequential_cpu_seconds=cpu,
        threaded_seconds=threaded,
        stage_ms=stages,
        threaded_stage_ms=stages,
    )
    return OverlapCase(name="a case", frames=100, cores=2, proved_frames=10, pairs=(pair,))


FINE = FileRow(
    name="a/fine.mp4",
    bytes=9,
    state="read",
    container="mov,mp4",
    codec="h264",
    frames=40,
    verdicts=(
        Verdict(party="headrace", way="seek", right=6),
        Verdict(party="headrace", way="order", right=40),
        Verdict(party="decord", way="seek", right=6),
    ),
)
BAD = FileRow(
    name="a/bad.mpg",
    bytes=9,
    state="read",
    container="mpeg",
    codec="mpeg2video",
    frames=50,
    index_frames=51,
    complaints=2,
    lines=("mpeg2video: ac-tex damaged",),
    verdicts=(
        Verdict(
            party="headrace", way="seek", right=4, wrong=2, examples=("7 is frame 8", "9 differs")
        ),
        Verdict(party="headrace", way="order", right=3, ending="hang", reason="no answer"),
        Verdict(party="decord", way="seek", right=5, refused_with=1, reason="it gives no picture"),
    ),
)
TEXT = FileRow(
    name="a/b.txt",
    bytes=2,
    state="no video",
    reason="a text",
    verdicts=(Verdict(party="headrace", way="open", right=1),),
)
LOST = FileRow(name="a/x.mkv", bytes=2, state="crash", reason="ended by SIGSEGV")


def conformed(*rows: FileRow) -> ConformanceResult:
    """Return a conformance run over files; over one of each kind, where none are given."""
    rows = rows or (FINE, BAD, TEXT, LOST)
    return ConformanceResult(
        provenance=origin(),
        versions={"headrace": {"headrace": "0.1", "av": "18.1"}},
        summary=summarise(rows),
        rows=rows,
    )
