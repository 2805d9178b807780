"""Multi-shape output: frames decoded once, converted to several formats each."""

from collections.abc import Callable, Sequence

from av.video.frame import VideoFrame

from headrace.decode.converter import Converter
from headrace.decode.frame_outputs import FrameWriter, Pixels
from headrace.video.frame_format import FrameFormat


class MultiShapeOutput(FrameWriter[Pixels]):
    """An `Out` for one job that converts each frame into several outputs."""

    def __init__(
        self,
        places: Sequence[Sequence[tuple[FrameFormat, Pixels]]],
        converter: Callable[[FrameFormat], Converter[Pixels]],
    ) -> None:
        """Convert nothing yet.

        Args:
            places: For each frame of the job, one or more (format, memory of that format).
            converter: Returns the stream's converter for a format.
        """
        self._places: Sequence[Sequence[tuple[FrameFormat, Pixels]]] = places
        self._new: Callable[[FrameFormat], Converter[Pixels]] = converter
        self._converters: dict[FrameFormat, Converter[Pixels]] = {}

    def write(self, number: int, frame: VideoFrame) -> Pixels:
        """Convert a frame into all its outputs, and return the first."""
        for shape, out in self._places[number]:
            self._converter(shape).convert(frame, out)
        return self._places[number][0][1]

    def _converter(self, shape: FrameFormat) -> Converter[Pixels]:
        if shape not in self._converters:
            self._converters[shape] = self._new(shape)
        return self._converters[shape]
