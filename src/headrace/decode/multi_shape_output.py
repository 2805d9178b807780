"""Frames of one job in several shapes each: decoded once, resized and cropped for each of them."""

from collections.abc import Callable, Sequence

from av.video.frame import VideoFrame

from headrace.decode.converter import Converter
from headrace.decode.frame_outputs import FrameWriter, Pixels
from headrace.video.frame_format import FrameFormat


class MultiShapeOutput(FrameWriter[Pixels]):
    """An `Out` for one job of a stream: each frame goes to all the places that want it."""

    def __init__(
        self,
        places: Sequence[Sequence[tuple[FrameFormat, Pixels]]],
        converter: Callable[[FrameFormat], Converter[Pixels]],
    ) -> None:
        """Convert nothing yet.

        Args:
            places: For each frame of the job, at least one: a shape, and memory of that shape.
            converter: Makes a converter of the stream into a shape.
        """
        self._places: Sequence[Sequence[tuple[FrameFormat, Pixels]]] = places
        self._new: Callable[[FrameFormat], Converter[Pixels]] = converter
        self._converters: dict[FrameFormat, Converter[Pixels]] = {}

    def write(self, number: int, frame: VideoFrame) -> Pixels:
        """Convert a frame into all its places, and return the first."""
        for shape, out in self._places[number]:
            self._converter(shape).convert(frame, out)
        return self._places[number][0][1]

    def _converter(self, shape: FrameFormat) -> Converter[Pixels]:
        if shape not in self._converters:
            self._converters[shape] = self._new(shape)
        return self._converters[shape]
