"""torchcodec backend: decodes frames by their index, on the CPU or on a GPU.

Unlike torchcodec alone, it returns the frame of the index or an error. torchcodec reports no damage
(it returns concealed frames unmarked), so each GOP is decoded once per process by PyAV's reference
decode, and one of its frames is compared with torchcodec's (`PixelDifference`).

Frame mappings are torchcodec's `custom_frame_mappings`, an object with a list `frames` of {"pts",
"duration", "key_frame"} in the stream's time base. Source: torchcodec documentation, VideoDecoder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
from av.video.frame import VideoFrame

from headrace.decode.capabilities import Capabilities, PixelDifference
from headrace.decode.converter import ArrayConverter
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.gop_verification import decode_reference
from headrace.decode.gpu.gpu_decoding import device_context
from headrace.decode.protocol import DecodeJob
from headrace.decode.stream_decoder import Conversion, StreamDecoder
from headrace.errors import BackendError, ConfigError, DecodeError, first_line
from headrace.extras import command_for, require
from headrace.video.container import open_container
from headrace.video.frame_format import FrameFormat
from headrace.video.reference_decode import VerifiedSpan
from headrace.video.stream_index import StreamIndex


class FrameMapping(NamedTuple):
    """One frame in torchcodec's format."""

    pts: int
    """Presentation time in ticks."""
    duration: int
    """Duration in ticks."""
    is_keyframe: bool
    """Whether decoding can start here."""


def to_frame_mappings(index: StreamIndex) -> str:
    """Return the index as torchcodec's JSON, for `custom_frame_mappings`."""
    frames = [
        {"pts": int(pts), "duration": int(duration), "key_frame": int(key)}
        for pts, duration, key in zip(index.pts, index.duration, index.is_keyframe, strict=True)
    ]
    return json.dumps({"frames": frames})


def from_frame_mappings(text: str) -> list[FrameMapping]:
    """Return the frames of torchcodec's JSON, or ffprobe's, in presentation order.

    Raises:
        ConfigError: the JSON has another structure.
    """
    try:
        rows = [_mapping(row) for row in json.loads(text)["frames"]]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(
            'frame mappings must be JSON like {"frames": [{"pts": 0, "duration": 512, '
            f'"key_frame": 1}}]}}; found {type(error).__name__}: {error}'
        ) from error
    return sorted(rows)


def check_frame_mappings(index: StreamIndex, text: str) -> list[str]:
    """Return the differences between external mappings and `index`, as text; empty if equal.

    Raises:
        ConfigError: `text` has another structure.
    """
    expected = from_frame_mappings(to_frame_mappings(index))
    listed = from_frame_mappings(text)
    if len(listed) != len(expected):
        return [f"{len(listed)} frames are listed, the video presents {len(expected)}"]
    return [
        f"frame {k}: pts {row.pts} is listed, found {frame.pts}"
        if row.pts != frame.pts
        else f"frame {k}: key_frame {row.is_keyframe:d} is listed, found {frame.is_keyframe:d}"
        for k, (row, frame) in enumerate(zip(listed, expected, strict=True))
        if (row.pts, row.is_keyframe) != (frame.pts, frame.is_keyframe)
    ]


def _mapping(row: dict[str, Any]) -> FrameMapping:
    pts = row["pts"] if "pts" in row else row["pkt_pts"]
    duration = row.get("duration", row.get("pkt_duration", 0))
    return FrameMapping(int(pts), int(duration), bool(int(row["key_frame"])))


CAPABILITIES = Capabilities(
    # Seeks are exact in these; in MPEG streams they return other frames, with the right times.
    containers=("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "flv", "ogg", "ivf"),
    uses_packets_only=True,
    # It rotates frames, but does not mirror them.
    decodes_mirrored=False,
    pixel_types=("uint8",),
)
"""Capabilities on CPUs and GPUs; the codecs depend on torchcodec's FFmpeg."""

_LIBRARY_ERRORS = (RuntimeError, ValueError, IndexError, OSError, NotImplementedError)
"""Exceptions that torchcodec raises."""


def check_installed() -> None:
    """Check that torchcodec can be used here; imports it.

    Raises:
        BackendError: it is not installed, does not fit this PyTorch, or finds no FFmpeg.
    """
    with require("torchcodec", "the backend torchcodec", "leave backend out"):
        try:
            import torchcodec
            import torchcodec.decoders
        except (OSError, RuntimeError, AttributeError) as error:
            raise BackendError(
                "the installed torchcodec does not fit this PyTorch "
                f"({_first_line(error)}); {command_for('torchcodec')}, or leave backend out"
            ) from error
    if torchcodec.ffmpeg_major_version is None:
        import torch

        raise BackendError(
            "the backend torchcodec cannot load FFmpeg's shared libraries, version 4 to 9, which "
            "are not part of it (on Debian: apt install ffmpeg), or it does not fit PyTorch "
            f"{torch.__version__}; install the missing one, or leave backend out"
        )


class TorchcodecFile:
    """A file and its codec, opened by torchcodec. For one thread."""

    def __init__(self, index: StreamIndex, decoding: DecoderConfig) -> None:
        """Open the file.

        Cost: 2 to 15 ms, and 5 microseconds per frame of the index.

        Raises:
            BackendError: torchcodec cannot open it; or it needs a GPU, and this process was forked
                from one that uses CUDA.
            OpenError: the file is missing.
        """
        check_installed()
        from torchcodec.decoders import VideoDecoder

        self._index = index
        self._request = f"torchcodec cannot decode {index.source} on {decoding.device}"
        self._is_on_gpu = decoding.gpu is not None
        context = device_context(decoding, self._request)
        container, stream = open_container(index.source)
        stream_index = stream.index
        container.close()
        try:
            with context:
                self._decoder: Any = VideoDecoder(
                    index.source.for_ffmpeg(),
                    stream_index=stream_index,
                    dimension_order="NHWC",
                    num_ffmpeg_threads=1,
                    device=decoding.device,
                    custom_frame_mappings=to_frame_mappings(index),
                )
        except (*_LIBRARY_ERRORS, AssertionError) as error:
            problem = "CUDA cannot start: " if self._is_on_gpu else ""
            fix = "leave device out, or backend" if self._is_on_gpu else "leave backend out"
            raise BackendError(f"{self._request}: {problem}{_first_line(error)}; {fix}") from error
        self._needs_check = self._is_on_gpu

    def read_frame(self, frame_index: int) -> Array:
        """Return a frame by index, uint8 [H, W, 3], RGB, upright, in its own memory.

        Raises:
            BackendError: torchcodec returns no frame, another frame, or decodes on the CPU instead.
        """
        index = self._index
        try:
            frame = self._decoder.get_frame_at(frame_index)
        except _LIBRARY_ERRORS as error:
            raise BackendError(
                f"{self._request}: it did not return frame {frame_index}, which PyAV decodes: "
                f"{_first_line(error)}; leave backend out"
            ) from error
        ticks = round(frame.pts_seconds / index.info.time_base)
        if ticks != int(index.pts[frame_index]):
            raise BackendError(
                f"{self._request}: it returned the frame at {frame.pts_seconds:.6f} s for frame "
                f"{frame_index} at {index.seconds(frame_index):.6f} s; leave backend out, and PyAV "
                "decodes it"
            )
        if self._needs_check:
            self._needs_check = False
            if self._decoder.cpu_fallback:
                raise BackendError(
                    f"{self._request}: it decodes on the CPU instead "
                    f"({self._decoder.cpu_fallback}); leave device or backend out"
                )
        pixels: Array = np.asarray(frame.data.cpu())
        return pixels


def _first_line(error: BaseException) -> str:
    return first_line(error)[:200]


_MIN_CHECKED_FRAMES: Final = 256
"""Minimum number of frames of a GOP that are verified at once."""


class TorchcodecDecoder(StreamDecoder[Array]):
    """Decodes jobs of one stream with torchcodec. Not thread-safe: one per thread.

    torchcodec returns RGB at full size, which PyAV's converters crop and resize. For crops,
    `bilinear` and `bicubic` the PyAV backend does the same. By `area` it resizes the stored colors,
    so frames differ: by 1.2 levels in the mean on a real clip at 224x224, and by up to 2.6 on
    synthetic clips full of chroma edges. The conversion of the full frame is an extra cost.

    torchcodec exposes neither packets nor decoded frames. Decoded frames and seeks are counted by
    its rule: it continues within a GOP, else it starts at the keyframe. Packets and bytes are
    counted in the verification only.
    """

    def __init__(
        self, index: StreamIndex, shape: FrameFormat | None, decoding: DecoderConfig
    ) -> None:
        """Open nothing yet."""
        super().__init__(index, shape)
        self._decoding = decoding
        self._full_size = ArrayConverter(FrameFormat(), index.info.orientation, str(index.source))
        self._file: TorchcodecFile | None = None
        self._last: int | None = None
        """Index of the last delivered frame."""

    def rest(self) -> None:
        """Release the file too: some 10 MB at 720p; torchcodec frees codec and file together."""
        self.close()

    def close(self) -> None:
        """Release the file and the codec."""
        self._file = None
        self._last = None

    def _begin(self, job: DecodeJob) -> None:
        if job.conceals:
            raise BackendError(
                f"torchcodec cannot conceal damage of {self.index.source}: it does not report "
                "damage; leave backend out, or give another on_error"
            )

    def _start_anew(self) -> None:
        self.close()

    def _decode(
        self, job: DecodeJob, conversion: Conversion[Array], lost: list[int]
    ) -> Iterator[tuple[int, Array]]:
        for gop, group in groupby(job.wanted, self.index.gop_of):
            frame_indices = list(group)
            stop = self._verified_stop(gop, frame_indices)
            lost += [frame_index for frame_index in frame_indices if frame_index >= stop]
            for frame_index in (frame_index for frame_index in frame_indices if frame_index < stop):
                frame = self._to_video_frame(self._read_frame(frame_index))
                if (pixels := conversion.pixels(frame_index, frame)) is not None:
                    yield frame_index, pixels

    def _verified_stop(self, gop: int, frame_indices: Sequence[int]) -> int:
        """Return the index up to which a GOP is verified, or up to which it is undamaged.

        `frame_indices[0]` is compared with PyAV's frame.

        Raises:
            BackendError: the two frames differ.
        """
        index, key = self.index, (self._decoding.device, gop)
        first, end = index.gop_range(gop)
        known = index.frame_status.verified.get(key, VerifiedSpan(first))
        if known.is_all or frame_indices[-1] < known.stop:
            return known.stop
        # A GOP may be a whole film: verify up to the wanted frames, doubling the span each time.
        num_checked = max(_MIN_CHECKED_FRAMES, 2 * (known.stop - first))
        frames = range(first, min(end, max(frame_indices[-1] + 1, first + num_checked)))
        reference = decode_reference(index, frames, frame_indices[0], self.counters)
        if reference is not None:
            self._check_equal(frame_indices[0], reference)
            known = VerifiedSpan(frames.stop)
        else:
            known = VerifiedSpan(known.stop, is_all=True)
        index.frame_status.verified[key] = known
        return known.stop

    def _check_equal(self, frame_index: int, reference: VideoFrame) -> None:
        """Raise BackendError if torchcodec's frame differs from PyAV's."""
        expected = self._full_size.convert(reference, None)
        pixels = self._full_size.convert(self._to_video_frame(self._read_frame(frame_index)), None)
        difference = PixelDifference.between(pixels, expected)
        if difference is None or not difference.is_equal:
            detail = (
                "size" if difference is None else f"mean difference {difference.mean:.1f} levels"
            )
            raise BackendError(
                f"torchcodec's frame {frame_index} of {self.index.source} differs from PyAV's "
                f"({detail}); leave backend out, and PyAV decodes it"
            )

    def _read_frame(self, frame_index: int) -> Array:
        if self._file is None:
            self._file = TorchcodecFile(self.index, self._decoding)
            self.counters.opens += 1
        first, _ = self.index.gop_range(self.index.gop_of(frame_index))
        last, self._last = self._last, frame_index
        image = self._file.read_frame(frame_index)
        self.counters.brought_down_bytes += image.nbytes if self._decoding.gpu is not None else 0
        before = first - 1 if last is None or not first - 1 <= last < frame_index else last
        self.counters.frames_decoded += frame_index - before
        self.counters.seeks += before != last
        return image

    def _to_video_frame(self, image: Array) -> VideoFrame:
        """Return an upright RGB image as a video frame in stored orientation."""
        stored = self.index.info.orientation.stored(image)
        return VideoFrame.from_numpy_buffer(np.ascontiguousarray(stored), format="rgb24")

    def _error_of(self, job: DecodeJob, missing: Sequence[int]) -> DecodeError:
        index, frame_index = self.index, missing[0]
        first, stop = index.gop_range(index.gop_of(frame_index))
        return DecodeError(
            f"frame {frame_index} of {index.source} cannot be decoded by torchcodec "
            f"(at {index.seconds(frame_index):.3f} s): the file is damaged between "
            f"frames {first} and {stop - 1}, and torchcodec does not report where; skip these "
            "frames, or leave backend out: PyAV decodes the intact ones",
            source=str(index.source),
            pts=int(index.pts[frame_index]),
        )
