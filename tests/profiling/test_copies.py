"""What was copied for each frame follows from what the stages carried and the decoder brought."""

import pytest

from headrace.profiling.copies import Copies
from headrace.profiling.flow import StageRecord
from headrace.profiling.metrics import Metrics
from headrace.report.totals import totals
from report.recorded import record


def carrying(name: str, moved_bytes: int, moved_to: str | None) -> StageRecord:
    waits = {"busy_seconds": 1.0, "starved_seconds": 0.0, "blocked_seconds": 0.0}
    return StageRecord(
        **{"name": name, "role": "transfer", "workers": 1, "items": 4, **waits},
        moved_bytes=moved_bytes,
        moved_to=moved_to,
    )


def session_with(*stages: StageRecord, brought_down: int = 0, decode: str = "pyav:cpu"):
    session = record()
    decoded = session.decode.model_copy(update={"brought_down_bytes": brought_down})
    made = session.provenance
    configuration = {**made.configuration, "decode": decode}
    return session.model_copy(
        update={
            "stages": (*session.stages, *stages),
            "decode": decoded,
            "provenance": made.model_copy(update={"configuration": configuration}),
        }
    )


def test_what_goes_to_the_cpu_came_down_and_all_else_went_up():
    """Records that do not say where to are of transfers to the model."""
    session = session_with(
        carrying("transfer", 6000, "cuda"),
        carrying("transfer inside the model", 1000, None),
        carrying("transfer to the sinks", 2000, "cpu"),
        brought_down=500,
    )
    frames = sum(session.steps.frames)
    assert Copies.of(session) == Copies(up_bytes=7000 / frames, down_bytes=2500 / frames)


@pytest.mark.parametrize("decode", ["pyav:cpu", "torchcodec:cpu"])
def test_where_no_gpu_is_used_nothing_is_said(decode):
    session = session_with(carrying("transfer", 0, "cpu"), decode=decode)
    assert Copies.of(session) is None
    assert "Copied" not in [row.label for row in totals(session, Metrics.of(session))]


def test_that_nothing_was_copied_is_said_where_a_gpu_decodes():
    session = session_with(decode="pyav:cuda:0")
    (row,) = (row for row in totals(session, Metrics.of(session)) if row.label == "Copied")
    assert (row.value, row.reading) == (
        "0 MB up, 0 MB down",
        "a frame, between CPU and GPU; none is best",
    )
