"""Stages of a run, timed alone in one thread; the costliest one, and the bound of a run."""

from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.records import local_provenance, timing
from headrace.bench.stages import STAGES, Bound, StagesRecord, StagesRepetition, rows_of
from headrace.bench.stages_line import SequentialStages
from headrace.decode.open_decoder import open_index
from headrace.decode.seek_check import pyav_frames
from headrace.errors import DecodeError
from headrace.measuring.interleaved import MedianRange
from headrace.preprocess.levels import build_preprocess
from headrace.profiling.run_records import Setup
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.tracing import RangeRecorder
from headrace.testing import damage
from runs.tiny import Brightness, tiny_classifier


class Seen(Brightness):
    """Model that stores every batch it scores."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def forward(self, batch):
        self.batches.append(batch.clone())
        return super().forward(batch)


def opened(index, model=None, **options):
    """Return the stages of a run over a video, as a context manager."""
    compute = ComputeOptions(**options)
    return closing(SequentialStages(index, model or tiny_classifier(), compute, SYSTEM_CLOCK))


@pytest.fixture
def index(clip, store):
    return open_index(clip(12, gop=6), store)


@pytest.mark.parametrize("batch_size", [1, 5, 12, 30])
def test_the_model_gets_every_frame_in_order_and_the_video_restarts(index, batch_size):
    seen = Seen()
    model = tiny_classifier(seen)
    with opened(index, model, batch_size=batch_size) as line:
        for _ in range(4):
            line.take()
    frames = np.stack(list(pyav_frames(index, None)))
    wanted = build_preprocess("medium", model.input)(frames)
    numbers = torch.arange(4 * batch_size) % len(index)
    assert torch.equal(torch.cat(seen.batches), wanted[numbers])


def test_each_stage_of_a_run_is_timed_without_sinks(index):
    with opened(index) as line:
        assert line.roles == ("decode", "preprocess", "model")
        times = line.take()
    assert tuple(times) == line.roles
    assert all(wall_ns > 0 and cpu_ns >= 0 for wall_ns, cpu_ns in times.values())


def test_one_stage_runs_at_a_time_in_one_thread(index):
    marks = RangeRecorder()
    with opened(index) as line:
        for number in range(2):
            line.take(number, marks)
    ranges = marks.ranges
    assert [(timed.stage, timed.number) for timed in ranges] == [
        (role, number) for number in range(2) for role in line.roles
    ]
    assert len({timed.thread_id for timed in ranges}) == 1
    for before, after in pairwise(ranges):
        assert before.end_ns <= after.start_ns


def test_without_a_folder_there_is_no_trace(measure, tmp_path):
    record = measure(STAGES, repeats=2)
    assert record.traced == 0
    assert len(record.turns) == 2
    for turn in record.turns:
        assert {len(batches) for batches in turn.work_ms.values()} == {len(turn.cpu_ms["model"])}
        assert len(turn.work_ms["decode"]) >= 3
    assert not list(tmp_path.rglob("*.gz"))


def test_a_damaged_frame_is_an_error(clip, tmp_path, store):
    bad = damage.damage_packets(Path(clip(12)), tmp_path / "bad.mp4", ordinals=[7])
    with (
        opened(open_index(bad, store)) as line,
        pytest.raises(DecodeError, match=r"bad\.mp4 cannot be decoded"),
    ):
        line.take()


USUAL = {"decode": (30.0, 30.0), "preprocess": (10.0, 10.0), "model": (16.0, 32.0)}
"""Role -> wall and CPU milliseconds of a batch of 10 frames."""


def turn(costs, batches=2, times=1.0, others=0.0):
    seconds = batches * sum(wall for wall, _ in costs.values()) / 1e3
    return StagesRepetition(
        **timing(seconds, others=others),
        work_ms={role: (wall * times,) * batches for role, (wall, _) in costs.items()},
        cpu_ms={role: (cpu * times,) * batches for role, (_, cpu) in costs.items()},
    )


def recorded(*turns, traced=10, **setup):
    usual = {"batch_size": 10, "model": "resnet50", "prep_level": "medium"}
    facts = {"size": (720, 1280), "model_seconds": 0.5, "setup": Setup(**usual | setup)}
    return StagesRecord(provenance=local_provenance(), turns=turns, traced=traced, **facts)


def test_rows_are_medians_per_frame_over_all_batches():
    slow = {"decode": (60.0, 50.0), "preprocess": (10.0, 10.0), "model": (15.0, 30.0)}
    rows = rows_of(recorded(turn(USUAL), turn(slow, batches=1), turn(USUAL)))
    decode, preprocess, model = rows
    assert [row.role for row in rows] == ["decode", "preprocess", "model"]
    assert (decode.ms, decode.cpu_ms, decode.batches) == (3, 3, 5)
    assert decode.p95_ms is None
    assert decode.rate == MedianRange(
        median=pytest.approx(333, abs=1),
        lowest=pytest.approx(167, abs=1),
        highest=pytest.approx(333, abs=1),
    )
    assert (decode.parts, preprocess.parts, model.parts) == (3, 1, pytest.approx(1.6))
    assert decode.share == pytest.approx(3 / 5.6)


def test_a_transfer_has_parts_too():
    rows = rows_of(bound_by({"transfer": (1.0, 1.0)}))
    assert [round(row.parts, 1) for row in rows] == [3.0, 1.0, 1.6, 0.1]


def test_a_p95_takes_90_batches():
    assert rows_of(recorded(turn(USUAL, batches=45), turn(USUAL, batches=45)))[0].p95_ms == 3


@pytest.mark.parametrize(
    ("decode", "preprocess", "model", "cores", "expected"),
    [
        # A stage with one thread; without it, the next stage or the cores are the bound.
        ((4, 4), (1, 1), (8, 8), 4, ("model", False, 8, 8 / 1.25)),
        ((4, 4), (9, 9), (8, 8), 16, ("preprocess", False, 9, 9 / 8)),
        # All cores; the stage with the most CPU time is named.
        ((12, 12), (1, 1), (2, 3), 4, ("decode", True, 4, 4 / 2)),
        ((4, 4), (1, 1), (4, 8), 2, ("model", True, 6.5, 6.5 / 2.5)),
        # Work on a GPU uses no core.
        ((4, 4), (1, 1), (8, 0.5), 8, ("model", False, 8, 8 / 1)),
    ],
)
def test_a_run_is_bound_by_its_slowest_stage_or_by_the_cores(
    decode, preprocess, model, cores, expected
):
    by_role = {"decode": decode, "preprocess": preprocess, "model": model}
    costs = {role: (10 * ms, 10 * cpu_ms) for role, (ms, cpu_ms) in by_role.items()}
    bound = Bound.of(rows_of(recorded(turn(costs))), cores)
    assert (bound.role, bound.is_cores) == expected[:2]
    assert (bound.ms, bound.most) == (pytest.approx(expected[2]), pytest.approx(expected[3]))
    assert bound.rate == pytest.approx(1e3 / expected[2])


def bound_by(costs, **options):
    return recorded(turn({**USUAL, **costs}), **options)


def test_findings_on_stages(check_pages):
    """A transfer is a stage, but not part of the ratio."""
    slow = {"preprocess": (90.0, 90.0)}
    busy = (turn(USUAL, others=3.0), turn(USUAL, times=1.01, others=3.0))
    few = (turn(USUAL, others=0.2), turn(USUAL, others=0.2))
    cases = {
        "bound by the cores": recorded(turn(USUAL), turn(USUAL)),
        "bound by the model": bound_by({"model": (90.0, 90.0)}, smaller_model="resnet18"),
        "bound by preprocessing": bound_by(slow),
        "bound by the simplest preprocessing": bound_by(slow, prep_level="simple"),
        "bound by decoding": bound_by({"decode": (900.0, 900.0)}),
        "bound by copies": bound_by({"transfer": (900.0, 9.0)}, device="cuda"),
        "copies that are quick": bound_by({"transfer": (1.0, 1.0)}, device="cuda"),
        "turns differ": recorded(turn(USUAL), turn(USUAL, times=2)),
        "the costliest in every turn": recorded(turn(USUAL), turn(USUAL, times=1.4)),
        "the same while other programs ran": recorded(*busy),
        "one turn while other programs ran": recorded(turn(USUAL, others=3.0)),
        "other programs took little, but not next to nothing": recorded(*few),
        "the same beside a GPU, whose work is no CPU time": recorded(*few, device="cuda"),
        "other programs took next to nothing": recorded(turn(USUAL, others=0.06)),
        "without a trace": recorded(turn(USUAL), traced=0),
    }
    check_pages(STAGES, cases)


def test_the_chart_has_a_bar_per_stage_and_p95_bars_only_if_known():
    [chart] = STAGES.page(recorded(turn(USUAL))).charts
    [medians] = chart.figure.data
    assert list(chart.figure.layout.yaxis.ticktext) == ["decode", "preprocess", "model"]
    assert list(medians.x) == [3, 1, pytest.approx(1.6)]
    [chart] = STAGES.page(recorded(turn(USUAL, batches=90))).charts
    assert list(chart.figure.data[1].x) == [3, 1, pytest.approx(1.6)]
