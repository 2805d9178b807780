"""Matrix and range of decoded frames, and coefficients from YUV to RGB."""

from dataclasses import dataclass
from typing import Final

from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from headrace.video.pyav_version import ONE_THREAD

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
