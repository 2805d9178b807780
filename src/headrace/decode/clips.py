"""Reading one clip: `num_frames` frames, `stride` apart."""

import os
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.sampling.boundary import Boundary, clip_indices
from headrace.video.frames import Clip
from headrace.video.shape import FrameShape
from headrace.video.source import Source


def read_clip(
    filename: str | os.PathLike[str],
    start: int = 0,
    num_frames: int = 16,
    stride: int = 2,
    *,
    size: tuple[int, int] | None = None,
    boundary: Boundary = "error",
) -> NDArray[np.uint8]:
    """Return a clip as uint8 [T, H, W, 3] in [0, 255], RGB, upright.

    Frame k of the clip is frame `start + k * stride` of the video, in presentation order; 1 means
    consecutive. `size` is (height, width), None the video's own. `load_clip` also tells indices,
    times and the frame rate.

    Raises:
        ConfigError: the video ends before the clip does and `boundary` is `error`, or an argument
            is out of range; the message says how many frames there are.
        OpenError, ScanError, DecodeError: the file is bad.
    """
    clip = load_clip(filename, start, num_frames, stride, size=size, boundary=boundary)
    return clip.frames


def load_clip(
    filename: Source | str | os.PathLike[str],
    start: int = 0,
    num_frames: int = 16,
    stride: int = 2,
    *,
    size: tuple[int, int] | None = None,
    boundary: Boundary = "error",
    store: IndexStore | None = None,
) -> Clip:
    """Return a clip with indices, presentation times and the video's frame rate.

    Arguments and errors are those of `read_clip`; `store` is where indexes are kept, the user's
    cache folder by default. A frame that the boundary rule repeats is decoded once.
    """
    with closing(open_decoder(Source.of(filename), FrameShape(size=size), store=store)) as decoder:
        index = decoder.index
        wanted = clip_indices(len(index), start, num_frames, stride, boundary)
        different, place = np.unique(wanted, return_inverse=True)
        height, width = decoder.shape.output_size(index.info.upright_size)
        frames = np.empty((len(different), height, width, 3), np.uint8)
        for _ in decoder.run(DecodeJob(tuple(different.tolist()), goes_on=False), frames):
            pass
    return Clip(
        frames=frames if len(different) == len(wanted) else frames[place],
        index=wanted,
        pts_seconds=index.seconds_of(wanted),
        frame_rate=index.frame_rate,
        source=str(index.source),
    )
