"""Every frame of some videos, as `open_device_decoder` leaves it on its device."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import torch

from headrace.decode.decoding import Decoding
from headrace.decode.open import open_device_decoder
from headrace.decode.protocol import DecodeJob
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex
from training.videos import SIZE, PlainFrames

KEPT, ON_GPU = (Decoding(device=device, keeps_on_device=True) for device in ("cpu", "cuda:0"))


LEVELS = 6
"""Of grey, that swscale's pictures differ by at most."""


class DecodedThere(PlainFrames):
    """What every frame that stays must look like."""

    def __init__(self, videos: Sequence[Path], shape: FrameShape | None = None) -> None:
        shape = shape or FrameShape(size=SIZE)
        self.frames = [np.stack([each.numpy() for each in frames_of(v, shape)]) for v in videos]


def frames_of(path: Path, shape: FrameShape | None = None) -> list[torch.Tensor]:
    """Return uint8 [H, W, 3] of all frames, made on the CPU."""
    index = StreamIndex.scan(path)
    with closing(open_device_decoder(index, shape, KEPT)) as decoder:
        job = DecodeJob(tuple(range(len(index))), goes_on=False)
        return [frame for _, frame in decoder.run(job)]


def apart(found: torch.Tensor, expected: torch.Tensor) -> int:
    """Return by how many grey levels pictures differ at most."""
    return int((found.cpu().int() - expected.cpu().int()).abs().max())
