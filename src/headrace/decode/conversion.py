"""The seam where a decoded frame meets its converter: into which memory, and what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol

from av.video.frame import VideoFrame

from headrace.decode.pixels import Out, Pixels, Stack, Writer
from headrace.errors import ConfigError, DecodeError
from headrace.video.shape import FrameShape, Orientation


class Converter(Protocol[Pixels]):
    """Makes decoded frames of one stream, on the CPU or on a device, into pixels. Not thread-safe.

    A backend that keeps frames on its device brings one whose pixels are tensors there.
    """

    def shape_of(self, frame: VideoFrame) -> tuple[int, ...]:
        """Return the shape of the pixels that a frame becomes.

        Raises:
            DecodeError: it cannot be made into what is asked for.
        """
        ...

    def new(self, shape: tuple[int, ...]) -> Pixels:
        """Return memory for pixels of `shape`, of any content, where frames are converted to."""
        ...

    def convert(self, frame: VideoFrame, out: Pixels | None) -> Pixels:
        """Return a frame as uint8 pixels, in `out` if it is given. Raises as `shape_of` does."""
        ...


class Conversion(Generic[Pixels]):
    """Converts the frames of one job into their places. A frame may come again: the last counts."""

    def __init__(
        self, converter: Converter[Pixels], wanted: Sequence[int], out: Out[Pixels] | None
    ) -> None:
        """Convert nothing yet; without `out` each frame gets memory of its own."""
        self._converter: Converter[Pixels] = converter
        self._slots = {number: slot for slot, number in enumerate(wanted)}
        self._out: Out[Pixels] | None = out
        self.refused: dict[int, DecodeError] = {}
        """Frames that could not be converted, and why."""

    def pixels(self, number: int, frame: VideoFrame) -> Pixels | None:
        """Return a frame converted, in its place; None if it cannot be, and a note in `refused`."""
        slot, out, converter = self._slots[number], self._out, self._converter
        try:
            if isinstance(out, Writer):
                pixels: Pixels = out.write(slot, frame)
            elif isinstance(out, Stack):
                place = out.place(slot, converter.shape_of(frame), converter.new)
                pixels = converter.convert(frame, place)
            else:
                pixels = converter.convert(frame, None if out is None else out[slot])
        except DecodeError as error:
            self.refused[number] = error
            return None
        self.refused.pop(number, None)
        return pixels


def output_size(
    frame: VideoFrame, shape: FrameShape, orientation: Orientation, source: str
) -> tuple[int, int]:
    """Return (height, width) of what a frame becomes.

    Raises:
        DecodeError: the crop does not lie inside the frame, as the stream changes its size.
    """
    upright = orientation.upright_size((frame.height, frame.width))
    try:
        return shape.output_size(upright)
    except ConfigError as error:
        raise DecodeError(
            f"a frame of {source} cannot be cropped: {error}", source=source, pts=frame.pts
        ) from error


def size_has_changed(
    frame: VideoFrame, source: str, before: Sequence[int], size: Sequence[int]
) -> DecodeError:
    """Return the error of a frame that comes in another (height, width) than those before."""
    return DecodeError(
        f"frames of {source} change their size on the way: from {'x'.join(map(str, before))} to "
        f"{'x'.join(map(str, size))} (height x width); give a size, so that all become equal, or "
        "ask for frames of one size at a time",
        source=source,
        pts=frame.pts,
    )
