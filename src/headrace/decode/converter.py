"""Converter: one decoded PyAV frame to upright pixels of the requested format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from headrace.decode.frame_outputs import Array, FrameWriter, Pixels
from headrace.decode.resize import resize
from headrace.decode.yuv420 import Yuv420Packer
from headrace.errors import ConfigError, DecodeError
from headrace.video.content_digest import rows_of
from headrace.video.frame_format import Crop, FrameFormat, Orientation, ResizeFit
from headrace.video.pyav_version import BYTE_ORDER, to_rgb


class Converter(Protocol[Pixels]):
    """Converts decoded frames of one stream, on the CPU or on a device, to pixels. Not thread-safe.

    A backend that keeps frames on its device supplies a converter to tensors on it.
    """

    def shape_of(self, frame: VideoFrame) -> tuple[int, ...]:
        """Return the shape of a frame's pixels.

        Raises:
            DecodeError: the frame cannot be converted to the requested format.
        """
        ...

    def new(self, shape: tuple[int, ...]) -> Pixels:
        """Return uninitialized memory for pixels of `shape`, on the converter's device."""
        ...

    def convert(self, frame: VideoFrame, out: Pixels | None) -> Pixels:
        """Return a frame as uint8 pixels, in `out` if given. Raises as `shape_of` does."""
        ...


def output_size(
    frame: VideoFrame, shape: FrameFormat, orientation: Orientation, source: str
) -> tuple[int, int]:
    """Return (height, width) of a converted frame.

    Raises:
        DecodeError: the crop lies outside the frame, because the stream changes its size.
    """
    upright = orientation.upright_size((frame.height, frame.width))
    try:
        return shape.output_size(upright)
    except ConfigError as error:
        raise DecodeError(
            f"a frame of {source} cannot be cropped: {error}", source=source, pts=frame.pts
        ) from error


def size_change_error(
    frame: VideoFrame, source: str, before: Sequence[int], size: Sequence[int]
) -> DecodeError:
    """Return the error for a frame whose (height, width) differs from earlier frames."""
    return DecodeError(
        f"the frame size of {source} changes from {'x'.join(map(str, before))} to "
        f"{'x'.join(map(str, size))} (height x width); give a size to resize all frames to, or "
        "request frames of one size at a time",
        source=source,
        pts=frame.pts,
    )


_GRAY_12, _RGB_16 = f"gray12{BYTE_ORDER}", f"rgb48{BYTE_ORDER}"
_AREA, _BICUBIC = Interpolation.AREA.value, Interpolation.BICUBIC.value


class ArrayConverter:
    """Converts frames of one stream to arrays: a `Converter`. Not thread-safe: one per decoder.

    Matrix (BT.601, 709, 2020) and range come from each frame's tags; untagged frames are BT.601
    limited range, as in FFmpeg. 10 bits become 8, unless 16 are requested. `area` averages while
    shrinking, at a quarter of the cost of converting at full size and resizing; growing is bicubic.
    """

    def __init__(self, shape: FrameFormat, orientation: Orientation, source: str) -> None:
        self._shape = shape
        self._orientation = orientation
        self.source = source
        """Name of the stream in messages."""
        self._scaler = VideoReformatter()
        self._packer = Yuv420Packer()
        # Typed as uint8; at run time also uint16.
        self._dtype: np.dtype[np.uint8] = np.dtype(shape.dtype)
        self._format = "rgb24" if shape.dtype == "uint8" else _RGB_16
        self._frame_size: tuple[int, int] | None = None
        """(height, width) of the last frame; the next two fields belong to it."""
        self._array_shape: tuple[int, ...] = ()
        self._fitting = ResizeFit(size=(0, 0), scaled=(0, 0))

    def output_size(self, frame: VideoFrame) -> tuple[int, int]:
        """Return (height, width) of the result. Raises as the module's function does."""
        return output_size(frame, self._shape, self._orientation, self.source)

    def shape_of(self, frame: VideoFrame) -> tuple[int, ...]:
        """Return the shape of a frame's array. Raises as `output_size` does."""
        frame_size = frame.height, frame.width
        if frame_size != self._frame_size:
            shape, crop = self._shape, self._shape.crop
            self._array_shape = shape.array_shape(self.output_size(frame))
            upright = self._orientation.upright_size(frame_size)
            self._fitting = shape.fitting((crop.height, crop.width) if crop else upright)
            self._frame_size = frame_size
        return self._array_shape

    def new(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialized array of `shape`."""
        return np.empty(shape, self._dtype)

    def convert(self, frame: VideoFrame, out: Array | None) -> Array:
        """Return `frame` in the format's layout, written into `out` if given.

        Raises:
            ConfigError: `out` has another dtype.
            DecodeError: the frame does not fit `out`, because the stream changes its size; or its
                colors cannot be converted.
        """
        expected = self.shape_of(frame)
        if out is None:
            out = self.new(expected)
        elif out.dtype != self._dtype:
            raise ConfigError(
                f"out must be {self._dtype} for frames of {self.source}, got {out.dtype}"
            )
        elif out.shape != expected:
            raise size_change_error(frame, self.source, out.shape[:2], self.output_size(frame))
        try:
            self._write(frame, out)
        except (av.error.FFmpegError, ValueError) as error:
            raise DecodeError(
                f"a frame of {self.source} cannot be converted from {frame.format.name}, color "
                f"matrix {int(frame.colorspace)}: {error}; re-encode the file with another matrix",
                source=self.source,
                pts=frame.pts,
            ) from error
        return out

    def _write(self, frame: VideoFrame, out: Array) -> None:
        shape, orientation, fitting = self._shape, self._orientation, self._fitting
        if shape.crop is not None:
            frame = self._cut(frame, shape.crop)
        if shape.layout == "yuv420":
            self._packer.pack(frame, fitting, orientation, out)
            return
        if shape.layout == "gray12":
            gray = self._scaler.reformat(frame, format=_GRAY_12)
            rows = rows_of(gray.planes[0], frame.width * self._dtype.itemsize).view(self._dtype)
            out[...] = orientation.upright(rows)[..., None]
            return
        stored = orientation.upright_size(fitting.scaled)
        if shape.interpolation == "area":
            image = self._to_rgb(frame, stored)
        else:
            full = self._to_rgb(frame, (frame.height, frame.width))
            image = resize(full, stored, shape.interpolation)
        fitting.place(orientation.upright(image), out)

    def _to_rgb(self, frame: VideoFrame, size: tuple[int, int]) -> Array:
        """Return a frame as RGB of a (height, width), in the scaled frame's memory."""
        height, width = size
        shrinks = height <= frame.height and width <= frame.width
        image = self._scaler.reformat(
            frame,
            width=width,
            height=height,
            format=self._format,
            interpolation=_AREA if shrinks else _BICUBIC,
            **to_rgb(frame),
        )
        rows = rows_of(image.planes[0], width * 3 * self._dtype.itemsize)
        return rows.view(self._dtype).reshape(height, width, 3)

    def _cut(self, frame: VideoFrame, crop: Crop) -> VideoFrame:
        """Return a crop as RGB, cut after the conversion: chroma has a lower resolution."""
        stored = self._orientation.stored_crop(crop, (frame.height, frame.width))
        full = self._to_rgb(frame, (frame.height, frame.width))
        cut = full[stored.top :, stored.left :][: stored.height, : stored.width]
        return VideoFrame.from_ndarray(np.ascontiguousarray(cut), format=self._format)


class MultiShapeOutput(FrameWriter[Pixels]):
    """An `Out` for one job that converts each frame into several outputs."""

    def __init__(
        self,
        outputs: Sequence[Sequence[tuple[FrameFormat, Pixels]]],
        converter: Callable[[FrameFormat], Converter[Pixels]],
    ) -> None:
        """Convert nothing yet.

        Args:
            outputs: (format, memory) pairs of each frame of the job, one or more.
            converter: Returns the stream's converter for a format.
        """
        self._outputs: Sequence[Sequence[tuple[FrameFormat, Pixels]]] = outputs
        self._new: Callable[[FrameFormat], Converter[Pixels]] = converter
        self._converters: dict[FrameFormat, Converter[Pixels]] = {}

    def write(self, position: int, frame: VideoFrame) -> Pixels:
        """Convert a frame into all its outputs, and return the first."""
        for shape, out in self._outputs[position]:
            if shape not in self._converters:
                self._converters[shape] = self._new(shape)
            self._converters[shape].convert(frame, out)
        return self._outputs[position][0][1]
