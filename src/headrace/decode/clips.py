"""Reading one clip: `num_frames` frames, `stride` apart."""

import os
from contextlib import closing
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.decode.decoding import ON_CPU, Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.decode.reading import read_whole
from headrace.errors import ConfigError
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
    on_error: Literal["raise", "conceal"] = "raise",
    decoding: Decoding = ON_CPU,
) -> NDArray[np.uint8]:
    """Return a clip as uint8 [T, H, W, 3] in [0, 255], RGB, upright.

    Frame k of the clip is frame `start + k * stride` of the video, in presentation order; 1 means
    consecutive. `size` is (height, width), None the video's own, which must be one for the whole
    clip. With `on_error="conceal"` damaged frames come as FFmpeg shows them. `decoding` is what
    decodes, and where. `load_clip` also tells which frames are damaged, indices, times and the
    frame rate.

    Raises:
        BackendError: such video cannot be decoded that way.
        ConfigError: the video ends before the clip does and `boundary` is `error`, or an argument
            is out of range; the message says how many frames there are.
        OpenError, ScanError, DecodeError: the file is bad.
    """
    clip = load_clip(
        filename,
        start,
        num_frames,
        stride,
        size=size,
        boundary=boundary,
        on_error=on_error,
        decoding=decoding,
    )
    return clip.frames


def load_clip(
    filename: Source | str | os.PathLike[str],
    start: int = 0,
    num_frames: int = 16,
    stride: int = 2,
    *,
    size: tuple[int, int] | None = None,
    boundary: Boundary = "error",
    on_error: Literal["raise", "conceal"] = "raise",
    decoding: Decoding = ON_CPU,
    store: IndexStore | None = None,
) -> Clip:
    """Return a clip with indices, presentation times and the video's frame rate.

    Arguments and errors are those of `read_clip`; `store` is where indexes are kept, the user's
    cache folder by default. A frame that the boundary rule repeats is decoded once.
    """
    if on_error not in ("raise", "conceal"):
        raise ConfigError(
            f"on_error of a clip is raise or conceal, got {on_error!r}: a clip has all its frames"
        )
    opened = open_decoder(Source.of(filename), FrameShape(size=size), decoding, store=store)
    with closing(opened) as decoder:
        index = decoder.index
        wanted = clip_indices(len(index), start, num_frames, stride, boundary)
        different, place = np.unique(wanted, return_inverse=True)
        job = DecodeJob(tuple(different.tolist()), goes_on=False, conceals=on_error == "conceal")
        frames, concealed = read_whole(decoder, [job])
    return Clip(
        frames=frames if len(different) == len(wanted) else frames[place],
        index=wanted,
        pts=index.pts[wanted],
        time_base=index.info.time_base,
        frame_rate=index.frame_rate,
        source=str(index.source),
        is_concealed=np.isin(wanted, list(concealed)),
    )
