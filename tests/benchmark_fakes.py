"""Results of benchmarks made by hand, for the tests of their tables."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.equality import Equality
from benchmarks.record import Repeat, Row, TimedResult
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
