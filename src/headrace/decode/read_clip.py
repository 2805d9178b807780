"""Reading a clip: `num_frames` frames, `stride` apart."""

import os
import sys
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_index
from headrace.decode.protocol import check_on_error
from headrace.decode.video_reader import VideoReader
from headrace.sampling.clip_shape import Boundary
from headrace.video.frame_format import FrameFormat
from headrace.video.frames import Clip
from headrace.video.source import Source, Stream


@answers_names
def read_clip(
    filename: str | os.PathLike[str],
    start: int = 0,
    num_frames: int = 16,
    stride: int = 2,
    *,
    size: tuple[int, int] | None = None,
    boundary: Boundary = "error",
    on_error: Literal["raise", "conceal"] = "raise",
    decoding: DecoderConfig = ON_CPU,
    stream: Stream | None = None,
    spill: str | os.PathLike[str] | None = None,
) -> NDArray[np.uint8]:
    """Return a clip as uint8 [T, H, W, 3] in [0, 255], RGB, upright.

    Frame k of the clip is frame `start + k * stride` of the video, in presentation order; stride 1
    means consecutive. `size` is (height, width); None: the video's, which must not change within
    the clip. With `on_error="conceal"`, damaged frames are concealed by FFmpeg. `stream` selects
    the video stream, as in `headrace.open`. `spill` is a folder of frames, as in `headrace.open`;
    each call reads its index, 40 bytes per frame. `load_clip` also returns indices, times, the
    frame rate, and which frames are concealed.

    `decoding` is backend and device. With `keeps_on_device=True` the clip is a tensor on that
    device, ready for later work on this thread's CUDA stream. Its static type is still an array:
    `torch.as_tensor` returns the same tensor with the right static type.

    Raises:
        BackendError: the configuration cannot decode the video.
        ConfigError: the video ends before the clip and `boundary` is `error`, with the number of
            frames in the message; or an argument is out of range.
        OpenError, ScanError, DecodeError: the file is not a video, or is damaged.
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
        stream=stream,
        spill=spill,
    )
    return clip.frames


@answers_names
def load_clip(
    filename: Source | str | os.PathLike[str],
    start: int = 0,
    num_frames: int = 16,
    stride: int = 2,
    *,
    size: tuple[int, int] | None = None,
    boundary: Boundary = "error",
    on_error: Literal["raise", "conceal"] = "raise",
    decoding: DecoderConfig = ON_CPU,
    stream: Stream | None = None,
    index_store: IndexStore | None = None,
    spill: str | os.PathLike[str] | None = None,
) -> Clip:
    """Return a clip with indices, presentation times and the video's frame rate.

    Arguments and errors: see `read_clip`. `index_store` is by default in the user's cache folder. A
    frame that the boundary rule repeats is decoded once. Each call opens the file, in some 5 ms:
    for many clips of one video use `headrace.open`.
    """
    check_on_error(on_error, ("raise", "conceal"))
    reader = VideoReader(
        open_index(Source.of(filename, stream), index_store),
        FrameFormat(size=size),
        conceals=on_error == "conceal",
        memory_budget=sys.maxsize,
        decoding=decoding,
        is_read_once=True,
        spill=spill,
    )
    with reader:
        return reader.clip(start, num_frames, stride, boundary)
