"""Pixels become frames without a copy and go to their device beside its work; batches are dicts."""

import json
import pickle
from copy import copy as copy_of
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data._utils.pin_memory import pin_memory

from decode.gpus import needs_gpu, needs_no_gpu
from headrace.loaders.collate import Collate, CudaPrefetcher, NamedTensors, check_device
from headrace.loaders.frame_loader import Batch

COPY, WORK = 3, 10
"""Duration of each, in ticks."""
PINNED = {"device": "cuda", "pin_memory": True}


@pytest.mark.parametrize("shape", [(2,), (2, 5)], ids=["frames", "clips or cameras"])
def test_colour_goes_first_and_no_pixel_is_copied(shape):
    pixels = np.arange(np.prod(shape) * 4 * 6 * 3, dtype=np.uint8).reshape(*shape, 4, 6, 3)
    pictures = Collate().to_frames(pixels)
    assert pictures.shape == (*shape, 3, 4, 6)
    assert np.array_equal(pictures.numpy(), np.moveaxis(pixels, -1, -3))
    pixels[...] = 7
    assert (pictures == 7).all()


def test_frames_of_different_sizes_are_transformed_one_by_one_without_empty_ones():
    seen = []

    def shrink(picture):
        seen.append(picture.shape)
        return picture[..., ::2, ::2]

    sizes = [[(4, 6), (2, 2)], [(0, 0), (8, 4)]]
    pixels = [[np.zeros((*size, 3), np.uint8) for size in row] for row in sizes]
    collate = Collate(transform=shrink)
    batch = NamedTensors(frames=collate.to_frames(pixels), slot=torch.arange(2))
    pictures = collate.apply_transforms(batch, [0, 1]).frames
    assert seen == [(3, 4, 6), (3, 2, 2), (3, 8, 4)]
    assert [[tuple(each.shape) for each in row] for row in pictures] == [
        [(3, 2, 3), (3, 1, 1)],
        [(3, 0, 0), (3, 4, 2)],
    ]


def test_the_transform_comes_after_the_device():
    def seen(frames):
        devices.append(frames.device.type)
        return frames

    devices = []
    collate = Collate(transform=seen, batch_transform=seen, device="meta")
    batch = NamedTensors(frames=collate.to_frames(np.zeros((2, 2, 2, 3), np.uint8)))
    collate.apply_transforms(batch, [0, 1])
    assert devices == ["meta"] * 3
    assert Collate().to_frames(np.zeros((1, 2, 2, 3), np.uint8)).device == torch.device("cpu")


@pytest.mark.parametrize("page", ["devices", pytest.param("without_cuda", marks=needs_no_gpu)])
def test_a_device_that_is_here_is_taken_and_one_that_cannot_be_used_is_refused(refused, page):
    for device in (None, "cpu", torch.device("cpu"), "cpu:0", "meta"):
        check_device(device, pin_memory=False)
    refused(page)
    assert not torch.cuda.is_initialized()


@dataclass(frozen=True)
class PlayedMark:
    gpu: "PlayedGpu"
    at: int

    def synchronize(self):
        self.gpu.now = max(self.gpu.now, self.at)


@dataclass
class PlayedGpu:
    """Work and copies are two queues; time passes for the process only while it waits."""

    now: int = 0
    work: list[tuple[int, int]] = field(default_factory=list)
    """(start, end) of each."""
    copies: list[tuple[int, int]] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    """Tensors of each copy."""
    _ready: int = 0
    """Time before which no further work starts."""

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
    """Return the batches of a loop that queues work on each, and waits for it in each step."""
    beside, seen = CudaPrefetcher(gpu), []
    for number in range(6):
        [batch] = beside([torch.full((2, 3), number)])
        gpu.ask_for_work()
        if waits:
            gpu.mark().synchronize()
        seen.append(batch)
    return seen


@pytest.mark.parametrize(
    ("waits", "step", "copied"),
    [(False, WORK, [0, 3, 13, 23, 33, 43]), (True, WORK + COPY, [0, 13, 26, 39, 52, 65])],
    ids=["the loop is ahead", "the loop waits in each step"],
)
def test_each_batch_is_copied_during_the_work_on_the_one_before(waits, step, copied):
    """Once the work before that is done: a GPU slower than the loop holds two batches, not all.

    It is never without work but for the first copy. A loop that waits in each step leaves nothing
    to copy beside.
    """
    gpu = PlayedGpu()
    batches = trained(gpu, waits=waits)
    assert [int(each[0, 0]) for each in batches] == [*range(6)]
    assert gpu.copies == [(begin, begin + COPY) for begin in copied]
    assert gpu.work == [(COPY + n * step, COPY + n * step + WORK) for n in range(6)]


def test_frames_of_a_batch_are_copied_at_once_for_any_sizes():
    gpu = PlayedGpu()
    collate = Collate(device="cpu", copying=gpu)
    pixels = np.arange(2 * 4 * 6 * 3, dtype=np.uint8).reshape(2, 4, 6, 3)
    expected = Collate().to_frames(pixels)
    assert torch.equal(collate.to_frames(pixels), expected)
    [first, second], [third] = collate.to_frames([[pixels[0], pixels[1, :2]], [pixels[1]]])
    assert torch.equal(first, expected[0])
    assert torch.equal(second, expected[1][:, :2])
    assert torch.equal(third, expected[1])
    assert gpu.moved == [1, 3]


def test_without_pinned_memory_nothing_is_copied_asynchronously():
    assert Collate(device="meta")._prefetcher is None
    assert Collate(device="cpu")._prefetcher is None


@needs_gpu
def test_batches_on_the_gpu_are_those_of_the_cpu_while_it_works(loader):
    options = {"batch_size": 16, "size": (64, 64)}
    doubled = []
    for batch in loader(**PINNED, **options):
        torch.cuda._sleep(2_000_000)
        doubled.append(batch.frames.int() * 2)
    for found, batch in zip(doubled, loader(**options), strict=True):
        assert torch.equal(found.cpu(), batch.frames.int() * 2)


@needs_gpu
def test_a_trace_of_the_gpu_shows_copies_beside_its_work(loader, tmp_path):
    each = loader(batch_size=16, size=(256, 256), **PINNED)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        for batch in islice(each, 6):
            torch.cuda._sleep(100_000_000)  # cycles: some 50 ms
            size = batch.frames.nbytes
        torch.cuda.synchronize()
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    moved = [event for event in events if event.get("cat") == "gpu_memcpy"]
    copies = [event for event in moved if event["args"].get("bytes", 0) >= size]
    work = [event for event in events if event.get("cat") == "kernel" and "spin" in event["name"]]
    assert len(copies) >= 5
    assert len(work) == 6
    of_copies, of_work = ({event["args"]["stream"] for event in each} for each in (copies, work))
    assert of_copies.isdisjoint(of_work)
    spans = [(event["ts"], event["ts"] + event["dur"]) for event in work]
    beside = [copy for copy in copies if any(a <= copy["ts"] < b for a, b in spans)]
    assert beside, "every copy waited for the work before it"


@pytest.fixture
def batch():
    return Batch(frames=torch.zeros(2, 3, 4, 6, dtype=torch.uint8), video=torch.tensor([5, 7]))


def test_attributes_are_items_too(batch):
    assert batch.video is batch["video"]
    batch.label = torch.tensor([1, 0])
    assert [*batch] == ["frames", "video", "label"]
    assert "label" in batch
    assert batch.pop("label").tolist() == [1, 0]
    assert dict(**batch) == dict(batch.items())
    assert batch.get(0) is None


def test_unknown_entries_are_named_and_an_index_gets_advice(refused):
    refused("batch")


def test_the_length_is_the_number_of_samples_and_repr_has_shapes(batch):
    assert len(batch) == 2
    assert len(NamedTensors()) == 0
    assert len(NamedTensors(loss=torch.tensor(1.0), video=torch.tensor([5]))) == 1
    assert NamedTensors()  # a batch is there, however small
    assert repr(batch) == "Batch(2 samples: frames uint8 [2, 3, 4, 6], video int64 [2])"
    moved = repr(NamedTensors(rows=[[torch.zeros(1, 2, device="meta")]], name="x"))
    assert moved == "NamedTensors(1 samples: rows 1 x 1 x float32 [1, 2] on meta, name str)"


def test_a_batch_is_moved_as_a_whole_and_keeps_its_type(batch):
    batch["rows"] = [[torch.zeros(3)], [torch.zeros(2)]]
    moved = batch.to("meta")
    assert type(moved) is Batch
    assert {moved.frames.device.type, moved.rows[1][0].device.type} == {"meta"}
    assert batch.frames.device.type == "cpu"
    assert batch.to(torch.device("cpu"), non_blocking=True).frames is batch.frames


@pytest.mark.parametrize("copied", [copy_of, lambda each: pickle.loads(pickle.dumps(each))])  # noqa: S301
def test_it_is_copied_and_sent(batch, copied):
    again = copied(batch)
    assert type(again) is Batch
    assert torch.equal(again.video, batch.video)
    assert again is not batch


def test_a_sample_has_the_entries_of_the_batch(batch):
    batch["rows"] = [["a"], ["b"]]
    sample = batch.sample(1)
    assert (int(sample["video"]), sample["rows"], sample["frames"].shape) == (7, ["b"], (3, 4, 6))


def test_the_pinning_of_a_dataloader_takes_it(batch, monkeypatch):
    """And so does its own `pin_memory`; without a GPU, no memory can be locked."""
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *_: tensor + 1)
    for pinned in (pin_memory(batch), batch.pin_memory()):
        assert type(pinned) is Batch
        assert pinned.video.tolist() == [6, 8]
