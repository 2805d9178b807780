"""Compares the frames of a GPU with those of the CPU; run in a process that loads the stand-in.

Writes a JSON of {case: "equal" | "different" | the error}.
"""

import json
import random
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from av.video.frame import VideoFrame
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from decode import stand_in
from decode.stand_in.failures import failures
from headrace import CameraLayout, CameraLoader, FrameFormat, FrameLoader, StreamIndex, open_decoder
from headrace.decode.converter import ArrayConverter
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.gpu import nvdec
from headrace.decode.gpu.nvdec import Nvdec
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.decode.pyav import PyavDecoder
from headrace.errors import HeadraceError
from headrace.loaders.cameras.camera_dataset import CameraStreamDataset
from headrace.loaders.cameras.stream_sampler import CameraStreamSampler
from headrace.testing.synth import KINDS, SynthClip, write_clip
from loaders.cameras.clips import SIZE, write_layout
from loaders.videos import contents

# CUDA itself has no stand-in. Spawned workers import this too.
torch.cuda.device_count = lambda: 1
torch.set_num_threads(1)
nvdec.torch_cuda_context = stand_in.context
KEPT = DecoderConfig(device="cuda:0", keeps_on_device=True)


def main() -> None:
    """Decode clips of the given kinds, then a camera layout."""
    folder, *kinds = sys.argv[1:]
    work, found = Path(folder), {}
    for kind in kinds:
        index = StreamIndex.scan(write_clip(work / kind, KINDS[kind]))
        stand_in.learn(index, work / "pictures")
        for name, shape in stand_in.SHAPES.items():
            found[f"{kind}, {name}"] = outcome(lambda i=index, s=shape: is_equal(i, s))
        found[f"{kind}, kept"] = outcome(lambda i=index: is_equal(i, FrameFormat(), is_kept=True))
    found["auto"] = auto(work)
    found |= failures(work)
    layout = write_layout(work / "videos")
    for clip in layout.clips:
        for camera in layout.cameras:
            index = StreamIndex.scan(clip.file(camera))
            stand_in.learn(index, work / "pictures")
    store = IndexStore(work / "store")
    found["CameraLoader"] = outcome(lambda: is_loader_equal(layout, store))
    found["CameraStreamDataset, spawned"] = outcome(lambda: is_dataset_equal(layout, store))
    json.dump(found, sys.stdout, indent=1)


def outcome(compare: Callable[[], bool]) -> str:
    """Return the outcome of a comparison."""
    try:
        return "equal" if compare() else "different"
    except HeadraceError as error:
        return f"{type(error).__name__}: {error}"


def is_equal(index: StreamIndex, shape: FrameFormat, *, is_kept: bool = False) -> bool:
    """Compare all frames in order, then twenty jobs with and without seeks, or five with a format.

    Other tests compare the CPU's frames after seeks with a linear decode.
    """
    chance = random.Random(len(index))
    jobs = [DecodeJob(tuple(range(len(index))), goes_on=False)]
    for _ in range(20 if shape == FrameFormat() else 5):
        count = min(len(index), chance.randint(1, 6))
        wanted = sorted(chance.sample(range(len(index)), count))
        jobs.append(DecodeJob(tuple(wanted), goes_on=chance.random() < 0.5))
    opened = open_decoder_of_kept(index, shape) if is_kept else open_decoder(index, shape, gpu=0)
    expected = dict(decoded(open_decoder(index, shape), jobs[:1]))
    found = decoded(opened, jobs)
    assert [number for number, _ in found] == [number for job in jobs for number in job.wanted]
    return all(np.array_equal(frame, expected[number]) for number, frame in found)


class _BringsDown(ArrayConverter):
    """Copies kept frames to the CPU one by one, without CUDA."""

    def __init__(self, index: StreamIndex, shape: FrameFormat) -> None:
        super().__init__(shape, index.info.orientation, str(index.source))
        self._gpu = Nvdec(KEPT, index, DecodeCounters())

    def convert(self, frame: VideoFrame, out: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
        assert frame.sw_format is not None, "the frame is not on the GPU"
        cuda = 2
        assert {plane.__dlpack_device__() for plane in frame.planes} == {(cuda, 0)}
        return super().convert(self._gpu.to_planar(frame), out)


def open_decoder_of_kept(
    index: StreamIndex, shape: FrameFormat
) -> "PyavDecoder[NDArray[np.uint8]]":
    """Return a decoder whose frames stay on GPU 0 until they are converted."""
    return PyavDecoder(index, shape, KEPT, _BringsDown(index, shape))


def decoded(opened: Decoder[Array], jobs: list[DecodeJob]) -> list[tuple[int, Array]]:
    """Return (number, pixels) of all frames of all jobs."""
    with closing(opened) as decoder:
        return [(number, pixels) for job in jobs for number, pixels in decoder.run(job)]


def auto(work: Path) -> dict[str, object]:
    """Compare two epochs of a loader with jobs on NVDEC and the CPU; return the counts.

    The stand-in has the pictures of two videos, but not of the third, the first of its codec.
    """
    clips = {
        "first": SynthClip(num_frames=40, size=(64, 96), gop=7, b_frames=2),
        "second": SynthClip(codec="hevc", num_frames=24, size=(64, 96), gop=6),
        "unknown": SynthClip(codec="mpeg4", gop=8, size=(80, 96)),
    }
    videos = [write_clip(work / name, clip) for name, clip in clips.items()]
    for video in videos[:2]:
        stand_in.learn(StreamIndex.scan(video), work / "pictures")
    options = {"batch_size": 8, "size": SIZE, "num_threads": 2}
    options["index_store"] = IndexStore(work / "store")
    with (
        FrameLoader(videos, **options) as there,
        FrameLoader(videos, **options, decoding=DecoderConfig(device="auto")) as here,
    ):
        equal = contents([*there, *there]) == contents([*here, *here])
        decoded_by = here.statistics.decoded_by
    jobs = {way: done.jobs for way, done in decoded_by.devices.items()}
    return {"equal": equal, "jobs": jobs, "on_cpu": dict(decoded_by.on_cpu)}


def is_loader_equal(layout: CameraLayout, store: IndexStore) -> bool:
    """Compare all batches of an epoch with two decoding threads."""
    options = {"group_num": 2, "size": SIZE, "num_threads": 2, "index_store": store}
    with CameraLoader(layout, **options) as expected, CameraLoader(layout, **options, gpu=0) as got:
        return all(torch.equal(a.frames, b.frames) for a, b in zip(expected, got, strict=True))


def is_dataset_equal(layout: CameraLayout, store: IndexStore) -> bool:
    """Compare all batches of an epoch of a spawned worker."""
    loaders = []
    for gpu in (None, 0):
        cameras = CameraStreamDataset(layout, num_of_set=2, size=SIZE, gpu=gpu, index_store=store)
        sampler = CameraStreamSampler(cameras, group_num=2, num_workers=1)
        context = "spawn" if gpu is not None else None
        how = {"num_workers": 1, "multiprocessing_context": context}
        loaders.append(DataLoader(cameras, batch_sampler=sampler, **how))
    return all(torch.equal(a["frames"], b["frames"]) for a, b in zip(*loaders, strict=True))


if __name__ == "__main__":
    main()
