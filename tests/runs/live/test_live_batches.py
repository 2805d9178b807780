"""Splitting of batch outputs, runners of custom callables, and losses of slow sinks."""

from threading import Event

import numpy as np
import pytest
import torch

from decode.gpus import needs_gpu
from headrace.models.results import Boxes, Labels
from headrace.runs.live.live_batches import LiveSinks, ModelRunner, split_outputs
from headrace.runtime.clock import SYSTEM_CLOCK
from runs.kit import Collecting
from runtime.in_time import in_time


def test_lists_tensors_dicts_and_results_are_split_into_entries():
    for numbers in ([1, 2], np.array([1, 2]), (1, 2)):
        assert split_outputs(numbers, 2) == (1, 2)
    by_name = split_outputs({"x": [1, 2], "y": ["a", "b"]}, 2)
    assert by_name == ({"x": 1, "y": "a"}, {"x": 2, "y": "b"})
    first, second = split_outputs(torch.tensor([[1.0], [2.0]]), 2)
    assert (first.tolist(), second.tolist()) == ([1.0], [2.0])
    labels = Labels(names=(("cat",), ("dog",)), confidence=((0.9,), (0.8,)))
    assert split_outputs(labels, 2)[1] == Labels(names=(("dog",),), confidence=((0.8,),))
    boxes = Boxes(
        xyxy=(np.zeros((0, 4), np.float32), np.ones((1, 4), np.float32)),
        classes=(np.zeros(0, np.int64), np.ones(1, np.int64)),
        labels=((), ("cat",)),
        scores=(np.zeros(0, np.float32), np.ones(1, np.float32)),
    )
    assert split_outputs(boxes, 2)[1].labels == (("cat",),)


@pytest.mark.parametrize("output", ["cat", None, 7, torch.tensor(3.0), object()])
def test_the_output_of_a_single_frame_may_be_anything(output):
    assert split_outputs(output, 1) == (output,)


def test_a_custom_callable_receives_raw_frames_channels_first():
    runner = ModelRunner.of_callable(len)
    frames = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    tensor = runner.prepare(frames)
    assert (tensor.shape, tensor.dtype) == ((2, 3, 4, 5), torch.uint8)
    assert tensor[1, 2, 3, 4] == frames[1, 3, 4, 2]
    assert runner.prepare(np.zeros((2, 7, 4, 5, 3), np.uint8)).shape == (2, 7, 3, 4, 5)


@needs_gpu
def test_the_gpu_work_of_a_custom_callable_is_complete_when_run_returns():
    done = torch.cuda.Event()

    def slow(batch):
        torch.cuda._sleep(500_000_000)
        done.record()
        return batch.float().mean(dim=(1, 2, 3))

    runner = ModelRunner.of_callable(slow, "cuda")
    runner.run(torch.zeros(2, 3, 4, 4, dtype=torch.uint8, device="cuda"))
    assert done.query()


def test_the_first_loss_of_a_slow_sink_is_one_event():
    may_write, events = Event(), []
    slow = Collecting(lambda results: may_write.wait())
    slow.name = "slow"
    sinks = LiveSinks(
        [slow], keeps_all=False, clock=SYSTEM_CLOCK, max_frames=64, on_event=events.append
    )

    def run():
        with sinks.running():
            for _ in range(5):
                sinks.fan.put(("results",))
                sinks.check()
            may_write.set()

    in_time(run)
    [event] = sinks.events
    assert events == [event]
    assert (event.kind, event.source) == ("dropped", None)
    assert event.words == (
        "overflow at slow: its queue is full, so results are lost, the oldest first"
    )
    [statistics] = sinks.fan.statistics()
    assert statistics.dropped["overflow"] >= 3
