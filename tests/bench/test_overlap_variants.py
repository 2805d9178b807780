"""All variants have equal results; a different result is an error."""

import pytest
import torch

from headrace.bench.model_work import FrameResult, ModelWork
from headrace.bench.overlap_processes import SharedFrame
from headrace.bench.overlap_variants import ComparedRepetitions, FrameTimeline, sequential, threaded
from headrace.decode.open_decoder import open_index
from headrace.errors import StageError
from headrace.live.realtime_file import LoadGenerator
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from runs.tiny import tiny_classifier


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
