"""Exact planes: YUV 4:2:2 from which swscale's RGB of a frame follows bit for bit.

When swscale shrinks YUV to RGB, it first computes 8 bits of luma per pixel and of chroma per two
pixels, and then reads RGB from tables. Planes of these values take two thirds of the bytes of RGB,
and pack better.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import av
import numpy as np
from av.filter.graph import Graph
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

from headrace.decode.converter import ArrayConverter, Converter
from headrace.decode.frame_outputs import Array, FrameWriter
from headrace.decode.yuv420 import matrix_and_range, planar_to_rgb
from headrace.errors import DecodeError
from headrace.runtime.clock import Clock
from headrace.video.frame_format import FrameFormat, Orientation

PLANES: Final = "yuv422p"
"""Pixel format of the planes."""
_FORMATS: Final = frozenset(["yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "nv12"])
"""Pixel formats of frames whose planes may be exact."""
_LOCATIONS: Final = ("left", "center")
"""Locations of chroma for which planes can be exact, the most frequent one first."""
_SMALL: Final = 64
"""Side in pixels of the noise that shows the location of chroma."""
_HALF: Final = (_SMALL // 2, _SMALL // 2)
_MAX_SCALERS: Final = 16
"""Kinds of frames whose scalers are kept; one takes about 1 MB."""


@dataclass(frozen=True, eq=False)
class Planes:
    """Planes of one frame."""

    frame: VideoFrame
    tags: bytes
    """Codes of matrix and range (ITU-T H.273)."""

    def write(self, converter: VideoReformatter, out: Array) -> None:
        """Write their RGB to `out`, uint8 [H, W, 3]. Cost: 0.2 ms for 256x256."""
        planar_to_rgb(converter, self.frame, self.tags, out)


class PlaneScaler:
    """Scales frames of one kind to planes. Not thread-safe.

    Cost: 0.3 ms for 720p to 256x256, half of a conversion to RGB.
    """

    def __init__(self, frame: VideoFrame, size: tuple[int, int], location: str) -> None:
        """Open filters for frames like `frame`, to a (height, width).

        Raises:
            FFmpegError: FFmpeg lacks an option.
        """
        self._kind = _kind(frame)
        span = "full" if self._kind[-1][1] == ColorRange.JPEG else "limited"
        self._graph, time_base = Graph(), Fraction(1, 25)
        nodes = [
            self._graph.add_buffer(
                width=frame.width, height=frame.height, format=frame.format, time_base=time_base
            ),
            self._graph.add(
                "scale",
                f"{size[1]}:{size[0]}:flags=area+accurate_rnd:threads=1:"
                f"in_chroma_loc={location}:out_chroma_loc=center:"
                f"in_range={span}:out_range={span}:"
                # Any equal ones: YUV stays YUV.
                "in_color_matrix=bt601:out_color_matrix=bt601",
            ),
            self._graph.add("format", PLANES),
            self._graph.add("buffersink"),
        ]
        self._graph.link_nodes(*nodes).configure()

    def scale(self, frame: VideoFrame) -> Planes | None:
        """Return the planes of a frame; None if it is of another kind, or has two fields."""
        kind = _kind(frame)
        if kind != self._kind or frame.interlaced_frame:
            return None
        self._graph.vpush(frame)
        return Planes(self._graph.vpull(), kind[-1])


class ExactPlanes:
    """Scalers whose planes are proved to be exact. Not thread-safe.

    Whether planes are exact depends on FFmpeg's version, on sizes and on tags. So noise is
    converted both ways when the first frame of a kind comes, and only equal pixels prove it. They
    are equal with FFmpeg 7.1 and 8 for 8-bit YUV 4:2:0 that shrinks to an even width, uncut and
    upright, with chroma at the left of two pixels or between them.
    """

    def __init__(self, shape: FrameFormat) -> None:
        """Scale nothing yet; `shape` has a size."""
        assert shape.size is not None
        self._size: tuple[int, int] = shape.size
        self._scalers: dict[object, PlaneScaler | None] = {}
        self._resizer, self._to_rgb = VideoReformatter(), VideoReformatter()
        self._plain = ArrayConverter(FrameFormat(size=_HALF), Orientation(), "noise")

    def scaler(self, frame: VideoFrame, converter: Converter[Array]) -> PlaneScaler | None:
        """Return the scaler for frames from a keyframe to the next; None if it is not exact.

        PyAV does not expose the location of chroma, which may change at a keyframe. So it is found
        by noise too, each time. Cost: 0.3 ms, and 5 ms for a new kind.

        Args:
            frame: One of the frames.
            converter: Converter of their stream to the format.
        """
        kind = _kind(frame)
        if kind[0] not in _FORMATS:
            return None
        if len(self._scalers) == _MAX_SCALERS:
            self._scalers.clear()
        small = self._noise(frame, _SMALL + 2 * (frame.width == _SMALL), _SMALL)
        for location in _LOCATIONS:
            if self._exact(small, _HALF, location, self._plain) is None:
                continue
            if (*kind, location) not in self._scalers:
                noise = self._noise(small, frame.width, frame.height)
                exact = self._exact(noise, self._size, location, converter)
                self._scalers[*kind, location] = exact
            return self._scalers[*kind, location]
        return None

    def _exact(
        self, noise: VideoFrame, size: tuple[int, int], location: str, converter: Converter[Array]
    ) -> PlaneScaler | None:
        """Return a scaler for frames like `noise`; None if its planes are not exact."""
        try:
            scaler = PlaneScaler(noise, size, location)
            planes, expected = scaler.scale(noise), converter.convert(noise, None)
            if planes is None or expected.shape != (*size, 3):
                return None
            planes.write(self._to_rgb, out := np.empty_like(expected))
        except (av.error.FFmpegError, DecodeError, ValueError):
            return None
        return scaler if np.array_equal(expected, out) else None

    def _noise(self, frame: VideoFrame, width: int, height: int) -> VideoFrame:
        """Return a frame of noise of another size, with the other properties of `frame`."""
        noise = self._resizer.reformat(frame, width, height, interpolation=Interpolation.POINT)
        assert noise is not frame
        # reformat sets another code of an equal matrix.
        noise.colorspace, noise.color_range = frame.colorspace, frame.color_range
        for plane in noise.planes:
            plane.update(hashlib.shake_128(bytes(plane.width)).digest(plane.buffer_size))
        return noise


def _kind(frame: VideoFrame) -> tuple[str, int, int, bytes]:
    return frame.format.name, frame.width, frame.height, bytes(matrix_and_range(frame))


class PlanesSample(NamedTuple):
    """Planes of one frame, timed."""

    planes: Planes | None
    """None if they are not exact."""
    rgb_ns: int
    """Time to convert the frame to RGB."""
    planes_ns: int
    """Time to scale it to planes; as long as to RGB without planes."""
    spent_ns: int
    """Time spent on the sample."""


class PixelUses(NamedTuple):
    """Use of one frame."""

    is_packed: bool
    is_rgb: bool


class PlanesWriter(FrameWriter[Array]):
    """Keeps exact planes of frames of one job that are packed, and writes the others as RGB."""

    def __init__(
        self,
        exact: ExactPlanes | None,
        converter: Converter[Array],
        memory: Sequence[Array] | None = None,
        uses_of: Callable[[int], PixelUses] = lambda position: PixelUses(False, True),
        *,
        clock: Clock | None = None,
    ) -> None:
        """Write nothing yet.

        Args:
            exact: Scalers; None: all frames are written as RGB.
            converter: Converter of the stream to RGB.
            memory: Memory of each frame; None: it is allocated.
            uses_of: Returns the use of a frame by its position in the job.
            clock: Clock to time planes of the first frame; None: without a sample.
        """
        self.planes: dict[int, Planes] = {}
        """Position in the job -> planes of a packed frame; its RGB may not be written."""
        self.sample: PlanesSample | None = None
        """Planes of the first frame, timed."""
        self._exact, self._converter, self._clock = exact, converter, clock
        self._memory, self._uses_of = memory, uses_of
        self._scaler: PlaneScaler | None = None
        self._is_first = True
        self._to_rgb = VideoReformatter()

    def write(self, position: int, frame: VideoFrame) -> Array:
        """Write a frame, and return its memory."""
        if self._is_first:
            self._is_first = False
            self._begin(frame)
        self.planes.pop(position, None)  # a repeated frame
        memory = None if self._memory is None else self._memory[position]
        planes = None if self._scaler is None else self._scaler.scale(frame)
        if planes is None or memory is None:
            return self._converter.convert(frame, memory)
        uses = self._uses_of(position)
        if uses.is_packed:
            self.planes[position] = planes
        if uses.is_rgb:
            planes.write(self._to_rgb, memory)
        return memory

    def _begin(self, frame: VideoFrame) -> None:
        began_ns = 0 if self._clock is None else self._clock.now_ns()
        if self._exact is not None:
            self._scaler = self._exact.scaler(frame, self._converter)
        if self._clock is not None:
            planes, rgb_ns, planes_ns = self._timed(frame, self._clock)
            spent_ns = self._clock.now_ns() - began_ns
            self.sample = PlanesSample(planes, rgb_ns, planes_ns, spent_ns)

    def _timed(self, frame: VideoFrame, clock: Clock) -> tuple[Planes | None, int, int]:
        for _ in range(2):  # the first time is a warm-up
            began_ns = clock.now_ns()
            self._converter.convert(frame, None)
            rgb_ns = clock.now_ns() - began_ns
            planes = None if self._scaler is None else self._scaler.scale(frame)
            planes_ns = clock.now_ns() - began_ns - rgb_ns
        return planes, rgb_ns, rgb_ns if planes is None else planes_ns
