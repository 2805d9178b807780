"""Frames as a GPU stores them, made into those that the CPU decodes, bit by bit."""

from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter


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
