"""Matrix and range of a decoded frame, by its own tags, and what they mean in numbers."""

from dataclasses import dataclass
from typing import Final

from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

_UNTAGGED: Final = 2
_WEIGHTS: Final = {
    **dict.fromkeys((1,), (0.2126, 0.0722)),  # BT.709
    **dict.fromkeys((3, 5, 6), (0.299, 0.114)),  # BT.601, and what is reserved, as in FFmpeg
    **dict.fromkeys((4,), (0.30, 0.11)),  # FCC
    **dict.fromkeys((7,), (0.212, 0.087)),  # SMPTE 240M
    **dict.fromkeys((9, 10), (0.2627, 0.0593)),  # BT.2020
}
"""Code of a matrix to its weights of red and blue. Source: ITU-T H.273, table 4."""

_LEFT: Final = frozenset(["h264", "hevc", "mpeg2video", "mpeg4"])
"""Codecs of which FFmpeg takes colour to lie left, where the stream does not say."""


@dataclass(frozen=True)
class YuvToRgb:
    """How numbers of brightness and colour become red, green and blue, in [0, 255].

    Red is `luma * (Y - black) + red_by_v * (V - grey)`, and so on.
    """

    black: float
    """The number of no brightness."""
    grey: float
    """The number of no colour."""
    luma: float
    red_by_v: float
    green_by_u: float
    green_by_v: float
    blue_by_u: float

    @property
    def base(self) -> tuple[float, float, float]:
        """Red, green and blue where all three numbers are 0: what `black` and `grey` take away."""
        by_colour = self.red_by_v, self.green_by_u + self.green_by_v, self.blue_by_u
        red, green, blue = (-self.luma * self.black - each * self.grey for each in by_colour)
        return red, green, blue


def matrix_and_range(frame: VideoFrame) -> tuple[int, int]:
    """Return the codes of a frame's own tags; untagged means BT.601 limited, as in FFmpeg."""
    if frame.format.is_rgb:
        return Colorspace.ITU601, ColorRange.MPEG
    matrix = int(frame.colorspace)
    is_full = frame.color_range == ColorRange.JPEG or frame.format.name.startswith("yuvj")
    return (
        Colorspace.ITU601 if matrix == _UNTAGGED else matrix,
        ColorRange.JPEG if is_full else ColorRange.MPEG,
    )


def colour_is_left(codec: str) -> bool:
    """Return whether the colour of two pixels side by side lies at the left one, or between them.

    By what is usual of the codec: PyAV 18.1 does not tell what a stream says of it (its chroma
    location), which swscale follows.
    """
    return codec in _LEFT


def colours(matrix: int, span: int, bits: int) -> YuvToRgb | None:
    """Return what a matrix and a range, by their codes, mean for numbers of so many bits.

    None if it is no matrix of brightness and two differences of colour. Source: ITU-T H.273, 8.3.
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


class Planar:
    """Makes frames planar, on the CPU. Not thread-safe."""

    def __init__(self, pixel_format: str) -> None:
        """Take the pixel format that the CPU decodes into."""
        self._format = pixel_format
        self._converter = VideoReformatter()

    def of(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame on the CPU, in that format, in memory of its own unless it has it already.

        swscale takes other paths for other formats: pixels would differ by rounding.
        """
        if frame.format.name == self._format:
            return frame
        planar = self._converter.reformat(frame, format=self._format, threads=1)
        # reformat names another matrix of the same numbers.
        planar.colorspace = frame.colorspace
        planar.color_range = frame.color_range
        return planar
