"""PyAV baseline: a minimal PyAV loop, the lower bound of decoding cost."""

from collections.abc import Iterator

import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from headrace.video.container import open_container
from headrace.video.stream_index import StreamIndex


def pyav_frames(index: StreamIndex, size: tuple[int, int] | None) -> Iterator[NDArray[np.uint8]]:
    """Yield every frame of a file, uint8 [H, W, 3], by a single-threaded PyAV loop."""
    upright = index.info.orientation.upright
    height, width = index.info.orientation.upright_size(size or index.info.upright_size)
    shrinks = height <= index.info.height and width <= index.info.width
    scaling = Interpolation.AREA if shrinks else Interpolation.BICUBIC
    scaler = VideoReformatter()
    container, stream = open_container(index.source)
    with container:
        stream.codec_context.thread_count = 1
        for frame in container.decode(stream):
            small = scaler.reformat(frame, width, height, "rgb24", interpolation=scaling, threads=1)
            yield upright(np.asarray(small.to_ndarray(), np.uint8))
