"""Frames in half the bytes while they wait: RGB to YUV 4:2:0 and back."""

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from headrace.errors import ConfigError


class Yuv420:
    """Packs RGB frames of one size; not thread-safe: one per thread.

    Brightness keeps its resolution and colour half of it, as in the video itself before it was
    scaled; full range, so that nothing is clipped. A frame comes back within 1 to 2 grey levels on
    average, further off where colours change sharply. 0.2 ms to pack 256x256, 0.1 ms to unpack.
    """

    def __init__(self) -> None:
        self._packer = VideoReformatter()
        self._unpacker = VideoReformatter()

    @staticmethod
    def packed_shape(size: tuple[int, int]) -> tuple[int, int]:
        """Return the shape of a packed frame of (height, width): its planes on top of each other.

        Raises:
            ConfigError: a side is odd.
        """
        height, width = size
        if height % 2 or width % 2:
            raise ConfigError(
                f"YUV 4:2:0 needs an even height and width, got {height}x{width}; "
                "choose another size, or hold frames as RGB"
            )
        return height * 3 // 2, width

    def pack(self, frame: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Write `frame`, uint8 [H, W, 3], to `out`, uint8 [H * 3 / 2, W]."""
        rgb = VideoFrame.from_ndarray(frame, format="rgb24")
        packed = self._packer.reformat(
            rgb, format="yuvj420p", interpolation=Interpolation.AREA, threads=1
        )
        out[...] = packed.to_ndarray()

    def unpack(self, planes: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Write a packed frame back to `out`, uint8 [H, W, 3]."""
        packed = VideoFrame.from_ndarray(planes, format="yuvj420p")
        rgb = self._unpacker.reformat(
            packed, format="rgb24", interpolation=Interpolation.BICUBIC, threads=1
        )
        out[...] = rgb.to_ndarray()
