"""Frames of one job in several shapes each: decoded once, resized and cropped for each of them."""

from collections.abc import Sequence

from av.video.frame import VideoFrame

from headrace.decode.convert import FrameConverter
from headrace.decode.pixels import Array, Writer
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex


class SeveralShapes(Writer[Array]):
    """An `Out` for one job of a stream: each frame goes to all the places that want it."""

    def __init__(
        self, index: StreamIndex, places: Sequence[Sequence[tuple[FrameShape, Array]]]
    ) -> None:
        """Convert nothing yet.

        Args:
            index: Of the stream.
            places: For each frame of the job, at least one: a shape, and memory of that shape.
        """
        self._index = index
        self._places = places
        self._converters: dict[FrameShape, FrameConverter] = {}

    def write(self, number: int, frame: VideoFrame) -> Array:
        """Convert a frame into all its places, and return the first."""
        for shape, out in self._places[number]:
            self._converter(shape).convert(frame, out)
        return self._places[number][0][1]

    def _converter(self, shape: FrameShape) -> FrameConverter:
        if shape not in self._converters:
            orientation = self._index.info.orientation
            self._converters[shape] = FrameConverter(shape, orientation, str(self._index.source))
        return self._converters[shape]
