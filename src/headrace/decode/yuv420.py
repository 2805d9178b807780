"""YUV 4:2:0 frames: their matrix and range, coefficients to RGB, and packed frames.

Packed frames take half the bytes of RGB while they wait, and are converted on use.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter
from numpy.typing import NDArray

from headrace.video.content_digest import rows_of
from headrace.video.frame_format import TAG_BYTES, Orientation, ResizeFit
from headrace.video.pyav_version import ONE_THREAD, to_yuv420

_UNTAGGED: Final = 2
_WEIGHTS: Final = {
    **dict.fromkeys((1,), (0.2126, 0.0722)),  # BT.709
    **dict.fromkeys((5, 6), (0.299, 0.114)),  # BT.601
    **dict.fromkeys((4,), (0.30, 0.11)),  # FCC
    **dict.fromkeys((7,), (0.212, 0.087)),  # SMPTE 240M
    **dict.fromkeys((9,), (0.2627, 0.0593)),  # BT.2020, non-constant luminance
}
"""Matrix code -> luma weights of red and blue. Source: ITU-T H.273, table 4."""

_LEFT: Final = frozenset(["h264", "hevc", "mpeg2video", "mpeg4"])
"""Codecs whose chroma FFmpeg locates at the left if the stream has no chroma location."""


@dataclass(frozen=True)
class YuvToRgb:
    """Coefficients from YUV values to red, green and blue in [0, 255].

    Red is `luma * (Y - black) + red_by_v * (V - grey)`; green and blue alike.
    """

    black: float
    """The luma value of black."""
    grey: float
    """The neutral chroma value."""
    luma: float
    red_by_v: float
    green_by_u: float
    green_by_v: float
    blue_by_u: float

    @property
    def base(self) -> tuple[float, float, float]:
        """Red, green and blue at Y = U = V = 0: the offsets of `black` and `grey`."""
        by_chroma = self.red_by_v, self.green_by_u + self.green_by_v, self.blue_by_u
        red, green, blue = (-self.luma * self.black - factor * self.grey for factor in by_chroma)
        return red, green, blue


def matrix_and_range(frame: VideoFrame) -> tuple[int, int]:
    """Return the (matrix, range) codes of a frame; untagged is BT.601 limited, as in FFmpeg."""
    if frame.format.is_rgb:
        return Colorspace.ITU601, ColorRange.MPEG
    matrix = int(frame.colorspace)
    is_full = frame.color_range == ColorRange.JPEG or frame.format.name.startswith("yuvj")
    return (
        Colorspace.ITU601 if matrix == _UNTAGGED else matrix,
        ColorRange.JPEG if is_full else ColorRange.MPEG,
    )


def chroma_is_left(codec: str) -> bool:
    """Return whether chroma is located at the left of two pixels, not between them.

    Decided by the codec: PyAV 18.1 does not expose the chroma location, which swscale follows.
    """
    return codec in _LEFT


def yuv_to_rgb(matrix: int, span: int, bits: int) -> YuvToRgb | None:
    """Return the coefficients of a matrix and a range code for values of `bits` bits.

    None for a matrix that swscale refuses too. Source: ITU-T H.273, 8.3.
    """
    if matrix not in _WEIGHTS:
        return None
    red, blue = _WEIGHTS[matrix]
    green = 1 - red - blue
    step = 1 << (bits - 8)
    is_full = span == ColorRange.JPEG
    luma, chroma = (
        255 / (((1 << bits) - 1) if is_full else levels * step) for levels in (219, 224)
    )
    return YuvToRgb(
        black=0 if is_full else 16 * step,
        grey=128 * step,
        luma=luma,
        red_by_v=2 * (1 - red) * chroma,
        green_by_u=-2 * blue * (1 - blue) / green * chroma,
        green_by_v=-2 * red * (1 - red) / green * chroma,
        blue_by_u=2 * (1 - blue) * chroma,
    )


class PlanarConverter:
    """Converts frames to a planar pixel format, on the CPU. Not thread-safe."""

    def __init__(self, pixel_format: str) -> None:
        """Convert to `pixel_format`, the CPU decoder's."""
        self._format = pixel_format
        self._converter = VideoReformatter()

    def convert(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame in the planar format; the frame itself if it already has it.

        swscale rounds differently for other formats.
        """
        if frame.format.name == self._format:
            return frame
        planar = self._converter.reformat(frame, format=self._format, **ONE_THREAD)
        # reformat sets another code of an equal matrix.
        planar.colorspace = frame.colorspace
        planar.color_range = frame.color_range
        return planar


_AREA, _BICUBIC, _ROUNDED = 0x20, 0x4, 0x40000
"""swscale flags; the last keeps the mean brightness of a direct conversion to RGB."""
_BLACK, _GREY = 16, 128
"""Values of limited range: black luma, and neutral chroma."""


def planes_in(packed: NDArray[np.uint8], size: tuple[int, int]) -> list[NDArray[np.uint8]]:
    """Return views of the planes Y, U and V of a packed frame of an even (height, width)."""
    height, width = size
    half = (height // 2, width // 2)
    ends = (height * width, height * width * 5 // 4)
    planes = np.split(packed[:-TAG_BYTES], ends)
    return [plane.reshape(of) for plane, of in zip(planes, (size, half, half), strict=True)]


class Yuv420Packer:
    """Scales and packs decoded frames of one stream. Not thread-safe.

    Planes keep the video's matrix and range, stored after them as two bytes (codes of ITU-T H.273),
    so that colors are converted once. Cost: 0.3 ms for 720p to 256x256, less than RGB.
    """

    def __init__(self) -> None:
        self._scaler = VideoReformatter()

    def pack(
        self,
        frame: VideoFrame,
        fitting: ResizeFit,
        orientation: Orientation,
        out: NDArray[np.uint8],
    ) -> None:
        """Write `frame` to `out`, uint8 [packed bytes], upright and fitted; sides must be even."""
        matrix, span = matrix_and_range(frame)
        height, width = orientation.upright_size(fitting.scaled)
        shrinks = height <= frame.height and width <= frame.width
        scaled = self._scaler.reformat(
            frame,
            width=width,
            height=height,
            interpolation=(_AREA if shrinks else _BICUBIC) | _ROUNDED,
            **to_yuv420(frame, matrix, span),
        )
        darkest = 0 if span == ColorRange.JPEG else _BLACK
        for plane, rows, fit, black in zip(
            scaled.planes,
            planes_in(out, fitting.size),
            (fitting, fitting.for_chroma, fitting.for_chroma),
            (darkest, _GREY, _GREY),
            strict=True,
        ):
            fit.place(orientation.upright(rows_of(plane, plane.width)), rows, black)
        out[-TAG_BYTES:] = matrix, span


class Yuv420Unpacker:
    """Converts packed frames to RGB. Not thread-safe. Cost: 0.35 ms for 256x256."""

    def __init__(self) -> None:
        self._converter = VideoReformatter()

    def unpack(self, packed: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Write a packed frame to `out`, uint8 [H, W, 3], of its packed size."""
        height, width, _ = out.shape
        planes = packed[:-TAG_BYTES].reshape(height * 3 // 2, width)
        frame = VideoFrame.from_ndarray(planes, format="yuv420p")
        planar_to_rgb(self._converter, frame, packed[-TAG_BYTES:].tobytes(), out)


def planar_to_rgb(
    converter: VideoReformatter, frame: VideoFrame, tags: bytes, out: NDArray[np.uint8]
) -> None:
    """Write planes of a frame to `out`, uint8 [H, W, 3], by the codes of matrix and range."""
    matrix, span = tags
    rgb = converter.reformat(
        frame,
        format="rgb24",
        src_colorspace=matrix,
        src_color_range=span,
        interpolation=_BICUBIC | _ROUNDED,
        **ONE_THREAD,
    )
    out[...] = rows_of(rgb.planes[0], rgb.width * 3).reshape(out.shape)
