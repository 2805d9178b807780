"""The reference: every frame of a stream by one plain pass of PyAV, with no part of the decoder."""

from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from headrace.decode.converter import ArrayConverter
from headrace.video.frame_format import FrameFormat
from headrace.video.packet_table import orientation_of


def linear_frames(path: Path, shape: FrameFormat | None = None) -> list[NDArray[np.uint8]]:
    """Return every frame in presentation order; packets that fail to decode are passed over."""
    frames: list[NDArray[np.uint8]] = []
    with av.open(str(path)) as container:
        stream = container.streams.best("video")
        stream.codec_context.thread_count = 1
        converter = None
        for packet in container.demux(stream):
            try:
                decoded = packet.decode()
            except av.error.FFmpegError:
                continue
            for frame in decoded:
                converter = converter or ArrayConverter(
                    shape or FrameFormat(), orientation_of(frame), str(path)
                )
                frames.append(converter.convert(frame, None))
    return frames
