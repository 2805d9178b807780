"""One decoded PyAV frame into upright pixels of the wanted shape, in one pass of swscale."""

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from headrace.decode.yuv420 import Yuv420Packer
from headrace.errors import ConfigError, DecodeError
from headrace.video.planes import rows_of
from headrace.video.shape import Crop, FrameShape, Orientation


class FrameConverter:
    """Converts frames of one stream to arrays: a `Converter`. Not thread-safe: one per decoder.

    Matrix (BT.601, 709, 2020) and range are taken from each frame's own tags; untagged means
    BT.601 limited range, as in FFmpeg. 10-bit becomes 8-bit. Shrinking averages areas, which costs
    a quarter of converting at full size and resizing afterwards; growing is bicubic.
    """

    def __init__(self, shape: FrameShape, orientation: Orientation, source: str) -> None:
        self._shape = shape
        self._orientation = orientation
        self._source = source
        self._scaler = VideoReformatter()
        self._packer = Yuv420Packer()
        self._cropper: tuple[tuple[int, int, str], av.filter.Graph] | None = None

    def output_size(self, frame: VideoFrame) -> tuple[int, int]:
        """Return (height, width) of the result.

        Raises:
            DecodeError: the crop does not lie inside the frame, as the stream changes its size.
        """
        upright = self._orientation.upright_size((frame.height, frame.width))
        try:
            return self._shape.output_size(upright)
        except ConfigError as error:
            raise DecodeError(
                f"a frame of {self._source} cannot be cropped: {error}",
                source=self._source,
                pts=frame.pts,
            ) from error

    def shape_of(self, frame: VideoFrame) -> tuple[int, ...]:
        """Return the shape of the array that a frame becomes. Raises as `output_size` does."""
        return self._shape.array_shape(self.output_size(frame))

    def new(self, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """Return an array of `shape`, of any content."""
        return np.empty(shape, np.uint8)

    def convert(self, frame: VideoFrame, out: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
        """Return `frame` as uint8 in the layout of the shape, written into `out` if it is given.

        Raises:
            DecodeError: the frame does not fit `out`, as frames of this stream change their size;
                or its colours cannot be converted.
        """
        size = self.output_size(frame)
        expected = self._shape.array_shape(size)
        if out is None:
            out = self.new(expected)
        elif out.shape != expected:
            raise DecodeError(
                f"frames of {self._source} change their size on the way: from "
                f"{'x'.join(map(str, out.shape[:2]))} to {size[0]}x{size[1]} (height x width); "
                "give a size, so that all become equal, or ask for frames of one size at a time",
                source=self._source,
                pts=frame.pts,
            )
        try:
            self._write(frame, size, out)
        except (av.error.FFmpegError, ValueError) as error:
            raise DecodeError(
                f"a frame of {self._source} cannot be converted from {frame.format.name}, colour "
                f"matrix {int(frame.colorspace)}: {error}; encode the file anew with other colours",
                source=self._source,
                pts=frame.pts,
            ) from error
        return out

    def _write(self, frame: VideoFrame, size: tuple[int, int], out: NDArray[np.uint8]) -> None:
        if self._shape.crop is not None:
            frame = self._crop(frame, self._shape.crop)
        if self._shape.layout == "yuv420":
            self._packer.pack(frame, size, self._orientation, out)
        else:
            stored = self._orientation.upright_size(size)
            out[...] = self._orientation.upright(self._to_rgb(frame, stored))

    def _to_rgb(self, frame: VideoFrame, size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return a view of the RGB picture, valid as long as the frame behind it."""
        height, width = size
        shrinks = height <= frame.height and width <= frame.width
        picture = self._scaler.reformat(
            frame,
            width=width,
            height=height,
            format="rgb24",
            interpolation=Interpolation.AREA if shrinks else Interpolation.BICUBIC,
            threads=1,
        )
        return rows_of(picture.planes[0], width * 3).reshape(height, width, 3)

    def _crop(self, frame: VideoFrame, crop: Crop) -> VideoFrame:
        """Return the cropped frame; its pixels are not copied."""
        key = (frame.height, frame.width, frame.format.name)
        if self._cropper is None or self._cropper[0] != key:
            stored = self._orientation.stored_crop(crop, (frame.height, frame.width))
            self._cropper = key, _crop_graph(frame, stored)
        graph = self._cropper[1]
        graph.push(frame)
        cropped = graph.pull()
        assert isinstance(cropped, VideoFrame)
        return cropped


def _crop_graph(frame: VideoFrame, crop: Crop) -> av.filter.Graph:
    """Build buffer -> crop -> sink; subsampled colour may lie a pixel aside of an odd corner."""
    graph = av.filter.Graph()
    source = graph.add_buffer(
        width=frame.width,
        height=frame.height,
        format=frame.format,
        time_base=frame.time_base,
    )
    sides = f"w={crop.width}:h={crop.height}:x={crop.left}:y={crop.top}:exact=1"
    cut = graph.add("crop", sides)
    sink = graph.add("buffersink")
    source.link_to(cut)
    cut.link_to(sink)
    graph.configure()
    return graph
