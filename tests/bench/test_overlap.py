"""Overlap benchmark: equal results of all variants; findings on bound and latency."""

import pytest
import torch

from bench.records import local_provenance, timing
from headrace.bench.model_work import FrameResult, ModelWork
from headrace.bench.overlap import OVERLAP, VARIANTS, OverlapRecord, OverlapRepetition
from headrace.bench.overlap_processes import SharedFrame
from headrace.bench.overlap_variants import ComparedRepetitions, FrameTimeline, sequential, threaded
from headrace.decode.open_decoder import open_index
from headrace.errors import StageError
from headrace.live.realtime_source import LoadGenerator
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from runs.tiny import tiny_classifier

WORK = {"decode": 2.0, "preprocess": 1.0, "model": 5.0, "show": 2.0}


def recorded(rates, *, cores=1.0, usable=4, others=0.0):
    """Return a record of two repetitions per variant, from their frames/s and mean latency."""
    turns = []
    for variant, (fps, ms) in zip(VARIANTS, rates, strict=True):
        for latency in ((), (ms - 1,) * 30 + (ms + 1,) * 30):
            times = {
                **timing(2, cores=cores, others=others),
                "latency_ms": latency,
                "work_ms": WORK,
            }
            turns += [OverlapRepetition(way=variant, fps=fps, **times)] * 2
    facts = {"videos": 1, "frames": 60, "settling": 10, "offered_fps": 70, "compared": 70}
    facts |= {"model_seconds": 0.5, "processes_seconds": 8}
    here = local_provenance("headrace", "bench", "overlap", cores=usable)
    return OverlapRecord(provenance=here, turns=tuple(turns), **facts)


USUAL = ((100, 11), (150, 12), (140, 14))


def at(*fps, **options):
    """Return a record of the frames per second of sequential stages, threads and processes."""
    return recorded([(rate, 9) for rate in fps], **options)


def test_findings_on_variants(check_pages):
    cases = {
        "the cores allow it": recorded(USUAL),
        "two cores allow it too": recorded(USUAL, usable=2),
        "the cores allow less": recorded(USUAL, cores=1.6, usable=2),
        "all cores are busy": recorded(USUAL, cores=2.0, usable=2),
        "one core is busy": recorded(USUAL, usable=1),
        "no gain, as cores are busy": at(100, 99, 60, cores=2.0, usable=2),
        "no gain, as overlap costs": at(100, 80, 60),
        "all that stages allow": at(100, 195, 190),
        "all that cores allow": at(100, 120, 118, cores=1.6, usable=2),
        "processes are faster": at(100, 110, 150),
        "other programs ran": at(100, 150, 140, others=1.0),
        "one does not keep up": recorded([(60, 90), (150, 12), (140, 14)]),
    }
    check_pages(OVERLAP, cases)


def test_the_work_of_each_stage_is_that_of_the_sequential_variant():
    work = OVERLAP.terms.work(recorded(USUAL))
    expected = {"decode": 2.0, "preprocess": 1.0, "model": 5.0, "sink": 2.0}
    assert {role: stage.ms for role, stage in work.items()} == expected
    assert all(stage.cpu_ms == stage.ms for stage in work.values())


def test_a_p95_of_too_few_frames_is_not_shown():
    usual = recorded(USUAL)
    few = [t.model_copy(update={"latency_ms": t.latency_ms[:20]}) for t in usual.turns]
    page = OVERLAP.page(usual.model_copy(update={"turns": tuple(few)}))
    assert [row[-1] for row in page.table.rows] == ["n too small"] * 3


@pytest.fixture
def index(clip, store):
    return open_index(clip(12), store)


@pytest.fixture
def work():
    return ModelWork(tiny_classifier(), ComputeOptions())


@pytest.mark.parametrize("speed", [None, 8.0])
def test_threads_and_sequential_stages_have_equal_results(index, work, speed):
    def timelines(variant):
        source = LoadGenerator([index], num_frames=30, speed=speed)
        return list(variant(work, source, SYSTEM_CLOCK))

    in_turn, in_threads = timelines(sequential), timelines(threaded)
    assert [frame.answer for frame in in_turn] == [frame.answer for frame in in_threads]
    assert [frame.answer.number for frame in in_turn] == list(range(30))
    assert len({frame.answer.picture for frame in in_turn}) > 10, "images differ"
    stages = {"decode", "preprocess", "model", "show"}
    assert set(in_turn[0].work_ns) == stages
    assert set(in_threads[0].work_ns) == stages
    for frame in (*in_turn, *in_threads):
        assert frame.out_ns > frame.due_ns
        assert min(frame.work_ns.values()) >= 0


def timeline(number, picture=0):
    answer = FrameResult(number=number, name="dark", confidence=0.5, picture=picture)
    return FrameTimeline(due_ns=0, out_ns=number + 1, work_ns={"model": 1}, answer=answer)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            [timeline(0), timeline(1, picture=7)],
            r"frame 1 gave .* in the first repetition, but .* with threads",
        ),
        ([timeline(0)], "the first repetition returned 12 frames, but 11 with threads"),
    ],
)
def test_a_variant_with_different_results_is_an_error(second, message):
    settling = [timeline(number) for number in range(-10, 0)]
    variants = {
        "sequential": lambda *order: [*settling, timeline(0), timeline(1)],
        "threads": lambda *order: [*settling, *second],
    }
    turns = ComparedRepetitions(variants=variants, frames=12, clock=SYSTEM_CLOCK)
    assert turns.take(("sequential", None)).way == "sequential"
    with pytest.raises(StageError, match=message):
        turns.take(("threads", None))


def test_pixels_and_tensor_of_a_frame_share_memory():
    frame = SharedFrame(number=0, due_ns=0, size=(3, 5), tensor_shape=(1, 3, 2, 2))
    memory = memoryview(bytearray(SharedFrame.bytes_of(3 * 5 * 3, 12 * 4)))
    frame.pixels(memory)[:] = 7
    frame.tensor(memory).copy_(torch.arange(12.0).reshape(1, 3, 2, 2))
    assert set(memory[:45]) == {7}
    assert frame.tensor(memory).flatten().tolist() == list(range(12))
    assert frame.pixels(memory).shape == (3, 5, 3)
