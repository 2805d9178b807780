"""A loader whose jobs go to NVDEC or the CPU; run in a process that loads the stand-in.

Prints a JSON: whether its batches are the CPU's, and what was done where. The stand-in knows the
pictures of two videos, and none of the third, on which it is tried as the first of its codec.
"""

import json
import sys
from pathlib import Path

import torch

from decode import stand_in
from headrace import DecoderConfig, FrameLoader, IndexStore, StreamIndex
from headrace.decode.gpu import nvdec
from headrace.testing.synth import SynthClip, write_clip
from loaders.videos import SIZE, contents

# CUDA itself has no stand-in.
torch.cuda.device_count = lambda: 1
nvdec.torch_cuda_context = stand_in.context


def main() -> None:
    """Compare all batches of an epoch."""
    work = Path(sys.argv[1])
    known = [
        write_clip(work / "first", SynthClip(num_frames=40, size=(64, 96), gop=7, b_frames=2)),
        write_clip(work / "second", SynthClip(codec="hevc", num_frames=24, size=(64, 96), gop=6)),
    ]
    for video in known:
        stand_in.learn(StreamIndex.scan(video), work / "pictures")
    videos = [*known, write_clip(work / "unknown", SynthClip(codec="mpeg4", gop=8))]
    options = {
        "batch_size": 8,
        "size": SIZE,
        "index_store": IndexStore(work / "store"),
        "num_threads": 2,
    }
    auto = DecoderConfig(device="auto")
    with FrameLoader(videos, **options) as there:
        expected = contents(there) + contents(there)
    with FrameLoader(videos, **options, decoding=auto) as here:
        found = contents(here) + contents(here)
        told = here.statistics.decoded_by
    jobs = {way: done.jobs for way, done in told.devices.items()}
    said = {"equal": found == expected, "jobs": jobs, "on_cpu": dict(told.on_cpu)}
    json.dump({**said, "no_gpu": told.no_gpu}, sys.stdout)


if __name__ == "__main__":
    main()
