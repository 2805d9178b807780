"""Batches are copied to a GPU beside its work, in order, and no more than one ahead."""

import json
from dataclasses import dataclass, field
from itertools import islice, pairwise

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from decode.gpus import needs_gpu
from headrace.training.collate import Collate
from headrace.training.copying import BesideTheWork
from headrace.training.loader import FrameLoader

COPY, WORK = 3, 10
"""Ticks that each takes."""


@dataclass(frozen=True)
class PlayedMark:
    gpu: "PlayedGpu"
    at: int

    def synchronize(self):
        self.gpu.now = max(self.gpu.now, self.at)


@dataclass
class PlayedGpu:
    """Work and copies are two queues; time passes for the process only where it waits."""

    now: int = 0
    work: list[tuple[int, int]] = field(default_factory=list)
    """From when to when."""
    copies: list[tuple[int, int]] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    """Tensors of each copy."""
    _ready: int = 0
    """Before which no more work begins."""

    def ask_for_work(self):
        begin = max(self.now, self._ready)
        self._ready = begin + WORK
        self.work.append((begin, self._ready))

    def mark(self):
        return PlayedMark(self, self._ready)

    def begin(self, tensors):
        begin = max(self.now, self.copies[-1][1] if self.copies else 0)
        self.copies.append((begin, begin + COPY))
        self.moved.append(len(tensors))
        return [each.clone() for each in tensors], PlayedMark(self, begin + COPY)

    def hand_over(self, tensors, copied):
        self._ready = max(self._ready, copied.at)


def trained(gpu, *, waits=False):
    """Return the batches of a loop that asks for work on each, and waits for it in each step."""
    beside, seen = BesideTheWork(gpu), []
    for number in range(6):
        [batch] = beside([torch.full((2, 3), number)])
        gpu.ask_for_work()
        if waits:
            gpu.mark().synchronize()
        seen.append(batch)
    return seen


def test_each_batch_is_copied_during_the_work_on_the_one_before():
    gpu = PlayedGpu()
    batches = trained(gpu)
    assert [int(each[0, 0]) for each in batches] == [*range(6)]
    for work, (begin, end) in zip(gpu.work, gpu.copies[1:], strict=False):
        assert work[0] - COPY <= begin < end <= work[1]
    for copy, work in zip(gpu.copies, gpu.work, strict=True):
        assert copy[1] <= work[0], "no work on a batch before it is there"


def test_the_gpu_is_never_without_work_but_for_the_first_copy():
    gpu = PlayedGpu()
    trained(gpu)
    assert gpu.work[0][0] == COPY
    assert all(one[1] == next_one[0] for one, next_one in pairwise(gpu.work))


def test_a_batch_is_copied_when_the_work_on_the_one_before_the_last_is_done():
    """So a GPU that is slower than the loop holds two batches, and not all of them."""
    gpu = PlayedGpu()
    trained(gpu)
    for work, copy in zip(gpu.work, gpu.copies[2:], strict=False):
        assert work[1] <= copy[0]


def test_a_loop_that_waits_in_each_step_has_every_batch_all_the_same():
    gpu = PlayedGpu()
    assert len(trained(gpu, waits=True)) == 6
    for work, copy in zip(gpu.work, gpu.copies[1:], strict=False):
        assert copy[0] == work[1], "nothing is left to copy beside"


def test_pictures_of_a_batch_are_copied_at_once_whatever_their_sizes():
    gpu = PlayedGpu()
    collate = Collate(device="cpu", copying=gpu)
    pixels = np.arange(2 * 4 * 6 * 3, dtype=np.uint8).reshape(2, 4, 6, 3)
    expected = Collate().pictures(pixels)
    assert torch.equal(collate.pictures(pixels), expected)
    [first, second], [third] = collate.pictures([[pixels[0], pixels[1, :2]], [pixels[1]]])
    assert torch.equal(first, expected[0])
    assert torch.equal(second, expected[1][:, :2])
    assert torch.equal(third, expected[1])
    assert gpu.moved == [1, 3]


def test_without_page_locked_memory_nothing_is_copied_beside():
    assert Collate(device="meta")._beside is None
    assert Collate(device="cpu")._beside is None


@needs_gpu
def test_batches_on_the_gpu_are_those_of_the_cpu_while_it_works(videos, store):
    options = {"batch_size": 16, "size": (64, 64), "store": store}
    with FrameLoader(videos, **options) as loader:
        expected = [batch.frames for batch in loader]
    doubled = []
    with FrameLoader(videos, device="cuda", pin_memory=True, **options) as loader:
        for batch in loader:
            torch.cuda._sleep(2_000_000)
            doubled.append(batch.frames.int() * 2)
    assert len(doubled) == len(expected)
    for found, frames in zip(doubled, expected, strict=True):
        assert torch.equal(found.cpu(), frames.int() * 2)


@needs_gpu
def test_a_trace_of_the_gpu_shows_copies_beside_its_work(videos, store, tmp_path):
    options = {"batch_size": 16, "size": (256, 256), "store": store}
    with (
        FrameLoader(videos, device="cuda", pin_memory=True, **options) as loader,
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded,
    ):
        for batch in islice(loader, 6):
            torch.cuda._sleep(100_000_000)  # cycles: some 50 ms
            size = batch.frames.nbytes
        torch.cuda.synchronize()
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    copies = [
        each
        for each in events
        if each.get("cat") == "gpu_memcpy" and each["args"].get("bytes", 0) >= size
    ]
    work = [each for each in events if each.get("cat") == "kernel" and "spin" in each["name"]]
    assert len(copies) >= 5
    assert len(work) == 6
    assert {each["args"]["stream"] for each in copies}.isdisjoint(
        each["args"]["stream"] for each in work
    )
    beside = [
        copy
        for copy in copies
        if any(each["ts"] <= copy["ts"] < each["ts"] + each["dur"] for each in work)
    ]
    assert beside, "every copy waited for the work before it"
