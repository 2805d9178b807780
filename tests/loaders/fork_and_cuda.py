"""Decodes on a GPU in workers that are forked and spawned; run in a process of its own.

Writes a JSON of {how the worker came to be: "equal" | what was raised}. CUDA is used in this
process before most of them, as a training loop with `run_model=True` does.
"""

import json
import sys
from pathlib import Path

import av
import torch
from av.codec.hwaccel import HWAccel
from torch.utils.data import DataLoader, Dataset

from headrace import DecoderConfig, FrameDataset, HeadraceError
from headrace.video.codec import new_codec

SIZE = (32, 48)
RAISED = (HeadraceError, RuntimeError, av.error.FFmpegError)


class ByPyavAlone(Dataset[int]):
    """Decode a first frame by FFmpeg's NVIDIA decoder, before any use of headrace."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return 1

    def __getitem__(self, number: int) -> int:
        with av.open(self.path) as container:
            stream = container.streams.video[0]
            codec = new_codec(stream, HWAccel("cuda", 0, allow_software_fallback=False))
            for packet in container.demux(stream):
                for frame in codec.decode(packet):
                    return frame.width
        raise RuntimeError("no frame came")


def outcome(path: Path, context: str) -> str:
    """Compare frames of a worker with frames that the CPU decodes here."""
    gpu = FrameDataset([path], SIZE, decoding=DecoderConfig.on_gpu(0))
    try:
        loader = DataLoader(gpu, num_workers=1, multiprocessing_context=context)
        found = next(iter(loader))["frames"][0]
    except RAISED as error:
        return str(error)
    return "equal" if torch.equal(found, FrameDataset([path], SIZE)[0]["frames"]) else "other"


def main() -> None:
    """Try each start method once."""
    path = Path(sys.argv[1])
    found = {"forked before CUDA was used": outcome(path, "fork")}
    torch.zeros(1, device="cuda")
    found["forked"] = outcome(path, "fork")
    found["spawned"] = outcome(path, "spawn")
    try:
        next(iter(DataLoader(ByPyavAlone(path), num_workers=1, multiprocessing_context="fork")))
        found["forked, by PyAV alone"] = "equal"
    except RAISED as error:
        found["forked, by PyAV alone"] = str(error)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
