"""VideoReader: an open video, with frames by index or by time."""

import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.cached_property import cached_property
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.frame_outputs import Array, device_memory
from headrace.decode.gpu.gpu_decoding import DeviceCounters, device_of
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import DecoderPool, check_can_decode, open_index
from headrace.decode.protocol import DecodeCounters, DecodeJob, check_on_error, decode_stacked
from headrace.decode.spilled_decoder import open_spill
from headrace.errors import ConfigError
from headrace.planning.chunks import split_ranges
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.sampling.clip_shape import Boundary, clip_indices
from headrace.units import check_integers, parse_bytes
from headrace.video.frame_format import Crop, Fit, FrameFormat, Interpolation, PixelType
from headrace.video.frames import Clip
from headrace.video.frames_played import Seconds, frames_played_at, frames_played_between, times_of
from headrace.video.memory_source import Video, source_of
from headrace.video.metadata import VideoMetadata, read_metadata
from headrace.video.source import Source, Stream
from headrace.video.stream_index import StreamIndex


class _NoFrameError(ConfigError, IndexError):
    """The frame index is out of range. An IndexError, which ends iteration over a sequence."""


_OTHER_NAMES: Final = {
    "at": "get_frames_played_at",
    "between": "get_frames_played_in_range",
    "get_batch": "get_frames_at",
    "read": "get_frames_at",
}
"""Names of other libraries -> the method here."""


@answers_names
def open(  # shadows the builtin here only; callers write headrace.open("a.mp4")
    video: Video,
    *,
    stream: Stream | None = None,
    size: tuple[int, int] | None = None,
    fit: Fit = "stretch",
    interpolation: Interpolation = "area",
    crop: Crop | None = None,
    dtype: PixelType = "uint8",
    on_error: Literal["raise", "conceal"] = "raise",
    memory_budget: int | str = "4GiB",
    decoding: DecoderConfig = ON_CPU,
    index_store: IndexStore | None = None,
    spill: str | os.PathLike[str] | None = None,
) -> "VideoReader":
    """Return a reader of one video, which stays open until it is closed. Audio is not read.

        with headrace.open("a.mp4", size=(224, 224)) as video:
            video[5], video[-1], video[10:50:2], video[[7, 3, 7]]
            video.get_frames_at([7, 3]), video.get_frames_played_in_range(2, 4, fps=8)

    Cost: 1 ms for a known file; other files, and bytes, are scanned. Decodes nothing yet.

    Args:
        video: A path; or the bytes of a video file, or a seekable binary file object, whose index
            is not stored.
        stream: Video stream to read: its index among all streams, as in FFmpeg and torchcodec, or
            "v:1", the second video stream. None: the stream that FFmpeg prefers.
        size: (height, width) of the frames; None: the size of the video, or of the crop.
        fit: Rule for another aspect ratio of `size`: `stretch`, `cover` (crop the excess) or
            `contain` (the full frame with black borders).
        interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
        crop: Rectangle of the upright frame to keep, before resizing.
        dtype: `uint8`, or `uint16` for video of more than 8 bits.
        on_error: Policy for damaged frames: `raise`, or `conceal` (concealed by FFmpeg, marked).
        memory_budget: Maximum bytes of the frames of one call.
        decoding: Backend and device. With `keeps_on_device=True` frames are tensors there.
        index_store: Store of the index; None: the user's cache folder.
        spill: Folder of frames on a local disk, shared with loaders and other readers: stored
            frames are read, the others decoded and stored. Not for bytes.

    Raises:
        BackendError: the configuration cannot decode the video.
        ConfigError: an argument is out of range, or the crop lies outside the frames.
        OpenError, ScanError: the file is not a video, or is damaged.
    """
    check_on_error(on_error, ("raise", "conceal"))
    shape = FrameFormat(size=size, crop=crop, fit=fit, interpolation=interpolation, dtype=dtype)
    budget = parse_bytes(memory_budget)
    index = open_index(Source.of(source_of(video), stream), index_store)
    shape.output_size(index.info.upright_size)  # refuses a crop that lies outside
    return VideoReader(
        index,
        shape,
        conceals=on_error == "conceal",
        memory_budget=budget,
        decoding=decoding,
        spill=spill,
    )


class VideoReader:
    """One open video: see `headrace.open`.

    Brackets return pixels: `reader[5]` is uint8 [H, W, 3] in [0, 255], RGB, upright; a slice or a
    list of indices is [N, H, W, 3]. Pixels are arrays; with `keeps_on_device` in `decoding` they
    are tensors on the device that decodes, ready for later work on this thread's CUDA stream.

    Methods return a `Clip`: frames with their indices and times. They have the names and meaning of
    torchcodec's `VideoDecoder`. Frames are [N, H, W, C] (NHWC); torchcodec's default is NCHW.
    Methods for one frame return a clip of one frame, [1, H, W, C]; torchcodec's return a `Frame`,
    [C, H, W].

    One call decodes each GOP once, up to the last requested frame, in any order of indices. A call
    for later frames reads on without a seek.

    Threads may share a reader; their calls run one at a time. After pickling or a fork the reader
    opens the file again; a reader of bytes or of a file object cannot be pickled.
    """

    def __init__(
        self,
        index: StreamIndex,
        shape: FrameFormat,
        *,
        conceals: bool = False,
        memory_budget: int = 1 << 32,
        decoding: DecoderConfig = ON_CPU,
        is_read_once: bool = False,
        spill: str | os.PathLike[str] | None = None,
    ) -> None:
        """Read a video with a known index; opens nothing yet. Arguments as for `open`.

        Args:
            index: The index of the video.
            shape: Format of the frames.
            conceals: Whether damaged frames are concealed by FFmpeg.
            memory_budget: Maximum bytes of the frames of one call.
            decoding: Backend and device.
            is_read_once: Whether only one call follows, so that decoding stops at its
                last frame.
            spill: Folder of frames on a disk.

        Raises:
            BackendError: the configuration cannot decode the video.
            ConfigError: `spill` is not a folder of frames, or frames stay on a device.
        """
        decoding = DecoderConfig.resolve(decoding)
        check_can_decode([index], shape, decoding)
        self.index = index
        """Index of the video: its frames, their times, and its random access points."""
        self._shape = shape
        self._conceals = conceals
        self._budget = memory_budget
        self._decoding = decoding
        store = open_spill(spill, decoding)
        self._pool = DecoderPool(shape, max_open=1, decoding=decoding, spill=store)
        self._lock = ForkSafeLock()
        self._is_read_once = is_read_once
        self._is_closed = False

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.index)

    def __getitem__(self, wanted: int | slice | Sequence[int] | NDArray[np.integer[Any]]) -> Array:
        """Return one frame, [H, W, 3], or several, [N, H, W, 3].

        An index below 0 counts from the end. A list may have any order and duplicates.

        Raises:
            ConfigError: the index is out of range (also an IndexError) or of a wrong type, the
                frames exceed the memory budget, or the reader is closed.
            OpenError, DecodeError: the file has changed, or is damaged at a frame.
        """
        if isinstance(wanted, slice):
            return self._frames(np.arange(len(self))[_checked_slice(wanted)])[0]
        index = _index_of(wanted)
        if index is not None:
            frame: Array = self._frames(self._positions([index]))[0][0]
            return frame
        return self._frames(self._positions(wanted))[0]

    def __iter__(self) -> Iterator[Array]:
        """Yield every frame, [H, W, 3], in order, one in memory at a time."""
        for index in range(len(self)):
            frame: Array = self._frames(np.array([index]))[0][0]
            yield frame

    def get_frame_at(self, index: int) -> Clip:
        """Return one frame by index, as a clip of one. Raises as brackets do."""
        return self._clip(self._positions([index]))

    def get_frames_at(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> Clip:
        """Return frames by index, in the given order; an index may repeat. Raises as brackets."""
        return self._clip(self._positions(indices))

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> Clip:
        """Return every `step`-th frame of [start, stop), by the rules of a slice.

        Raises as brackets do.
        """
        return self._clip(np.arange(len(self))[_checked_slice(slice(start, stop, step))])

    def clip(
        self, start: int = 0, num_frames: int = 16, stride: int = 1, boundary: Boundary = "error"
    ) -> Clip:
        """Return `num_frames` frames, `stride` apart; `boundary` is the rule past the end.

        Raises:
            ConfigError: an argument is out of range, or the video ends early.
            OpenError, DecodeError: the file has changed, or is damaged at a frame.
        """
        check_integers(0, start=start)
        check_integers(1, num_frames=num_frames, stride=stride)
        return self._clip(clip_indices(len(self), start, num_frames, stride, boundary))

    def get_frame_played_at(self, seconds: Seconds) -> Clip:
        """Return the frame that is shown at a time, as a clip of one.

        Raises:
            ConfigError: no frame is shown at that time; the message has the range of times.
            OpenError, DecodeError: the file has changed, or is damaged at that frame.
        """
        return self._clip(frames_played_at(self.index, [seconds]))

    def get_frames_played_at(self, seconds: Seconds | Iterable[Seconds]) -> Clip:
        """Return the frame that is shown at each of several times, in their order.

        Times count as `pts_seconds`. Arrays and tensors of times, such as a batch's, are accepted.
        Raises as `get_frame_played_at` does.
        """
        return self._clip(frames_played_at(self.index, times_of(seconds)))

    def get_frames_played_in_range(
        self, start_seconds: Seconds, stop_seconds: Seconds | None, fps: Seconds | None = None
    ) -> Clip:
        """Return the frames shown in [start_seconds, stop_seconds); None stops at the end.

        With `fps`, the frames shown at start, start + 1 / fps, ...: as many for every video,
        whatever its rate. `pts_seconds` are the frames' own times; torchcodec returns those of the
        grid. Raises as `get_frame_played_at` does.
        """
        return self._clip(frames_played_between(self.index, start_seconds, stop_seconds, fps))

    @cached_property
    def metadata(self) -> VideoMetadata:
        """Metadata of the video: rate, times, bit rate, pixel aspect, color, streams.

        Read once, in some 5 ms.

        Raises:
            OpenError: the file has changed, or is gone.
        """
        return read_metadata(self.index)

    @property
    def counters(self) -> DecodeCounters:
        """Decoding cost so far, in this process."""
        return self._pool.counters

    @property
    def decoded_by(self) -> DeviceCounters | None:
        """Totals of the CPU and the GPU in this process; None unless decoding is `auto`."""
        return self._pool.decoded_by

    def close(self) -> None:
        """Release the file and the codec. Frames that were read stay valid."""
        with self._lock:
            self._is_closed = True
            self._pool.close()

    def _positions(self, indices: object) -> NDArray[np.int64]:
        """Return indices counted from the start, int64 [N]."""
        try:
            positions = np.asarray(indices)
        except (ValueError, TypeError):
            positions = np.zeros(())  # ragged or on another device: refused below
        if positions.shape == (0,):
            return np.zeros(0, np.int64)
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise ConfigError(
                f"frames of {self.index.source} are indexed by an integer, a slice or a list of "
                f"integers, got {' '.join(str(indices).split())[:80]!r}"
            )
        total = len(self)
        for position in positions[(positions < -total) | (positions >= total)]:
            raise _NoFrameError(
                f"frame {position} is out of range: {self.index.source} has {total} frames "
                f"(0 to {total - 1})"
            )
        return np.where(positions < 0, positions + total, positions).astype(np.int64)

    def _clip(self, wanted: NDArray[np.int64]) -> Clip:
        frames, concealed = self._frames(wanted)
        index = self.index
        return Clip(
            frames=frames,
            index=wanted,
            pts=index.pts[wanted],
            time_base=index.info.time_base,
            frame_rate=index.frame_rate,
            source=str(index.source),
            original_size=index.info.upright_size,
            is_concealed=np.isin(wanted, list(concealed)),
        )

    def _frames(self, wanted: NDArray[np.int64]) -> tuple[Array, frozenset[int]]:
        """Return frames [N, H, W, 3], and the indices of concealed ones."""
        self._check(len(wanted))
        if not len(wanted):
            return self._no_frames(), frozenset()
        ranges: list[tuple[int, ...]] = [(int(wanted[0]),)]
        if len(wanted) > 1:
            unique, position = np.unique(wanted, return_inverse=True)
            ranges = [gop_range.wanted for gop_range in split_ranges(0, self.index, unique)]
        last = ranges[-1] if self._is_read_once else None
        jobs = [
            DecodeJob(frames, goes_on=frames is not last, conceals=self._conceals)
            for frames in ranges
        ]
        with self._lock:
            if self._is_closed:
                raise ConfigError(f"the reader of {self.index.source} is closed; open it again")
            stack, concealed = decode_stacked(self._pool.decoder(self.index), jobs)
        if len(wanted) == 1 or np.array_equal(position, np.arange(len(wanted))):
            return stack, concealed
        return stack[position], concealed

    def _no_frames(self) -> Array:
        """Return an empty array or tensor of frames."""
        shape = (0, *self._shape.array_shape(self._size))
        if self._decoding.keeps_on_device:
            return cast(Array, device_memory(shape, device_of(self._decoding)))
        return np.empty(shape, self._shape.dtype)

    @cached_property
    def _size(self) -> tuple[int, int]:
        """(height, width) of the frames."""
        return self._shape.output_size(self.index.info.upright_size)

    def _check(self, count: int) -> None:
        needed = count * self._shape.frame_bytes(self._size)
        if needed > self._budget:
            raise ConfigError(
                f"frames of {self.index.source} take {needed:,} bytes, {count} at a time, more "
                f"than the memory budget of {self._budget:,}; request fewer at a time, "
                "give a size, or raise memory_budget"
            )

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError; for a method of another library, name the method here."""
        hint = f"; did you mean {_OTHER_NAMES[name]}?" if name in _OTHER_NAMES else ""
        raise AttributeError(f"VideoReader has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        index, info = self.index, self.index.info
        height, width = info.upright_size
        return (
            f"<VideoReader of {index.source}: {len(index)} frames of {height}x{width} "
            f"(height x width), {info.codec}, {index.duration_seconds:.3f} s"
            f"{', closed' if self._is_closed else ''}>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _index_of(wanted: object) -> int | None:
    """Return the requested index; None unless it is a single integer."""
    if isinstance(wanted, bool | np.bool_) or not hasattr(wanted, "__index__"):
        return None
    try:
        return None if np.ndim(wanted) else operator.index(wanted)  # type: ignore[arg-type]
    except TypeError:  # a tensor or a NumPy scalar that is not an integer
        return None


def _checked_slice(wanted: slice) -> slice:
    for bound in (wanted.start, wanted.stop, wanted.step):
        if bound is not None and not hasattr(bound, "__index__"):
            raise ConfigError(
                f"a slice of frames has integers, got {bound!r}; get_frames_played_at takes seconds"
            )
    if wanted.step is not None and operator.index(wanted.step) == 0:
        raise ConfigError("the step of a slice of frames cannot be 0")
    return wanted
