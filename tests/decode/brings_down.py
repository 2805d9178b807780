"""Frames that stay on a GPU, brought down one by one: a converter where there is no CUDA."""

import numpy as np
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from headrace.decode.convert import FrameConverter
from headrace.decode.decoding import Decoding
from headrace.decode.gpu_frames import GpuFrames
from headrace.decode.pyav import PyavDecoder
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

KEPT = Decoding(device="cuda:0", keeps_on_device=True)


class _BringsDown(FrameConverter):
    def __init__(self, index: StreamIndex, shape: FrameShape) -> None:
        super().__init__(shape, index.info.orientation, str(index.source))
        self._gpu = GpuFrames(KEPT, index)

    def convert(self, frame: VideoFrame, out: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
        assert frame.sw_format is not None, "it came down before"
        cuda = 2
        assert {plane.__dlpack_device__() for plane in frame.planes} == {(cuda, 0)}
        return super().convert(self._gpu.planar(frame), out)


def open_decoder_of_kept(index: StreamIndex, shape: FrameShape) -> "PyavDecoder[NDArray[np.uint8]]":
    """Return a decoder whose frames stay on GPU 0 until they are converted."""
    return PyavDecoder(index, shape, KEPT, _BringsDown(index, shape))
