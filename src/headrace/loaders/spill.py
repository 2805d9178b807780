"""Spill: the frames of a video set on a local disk, which need not be decoded again."""

import warnings
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.packing import LIBRARIES, PACKINGS, Packing
from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import OpenError, SpillWarning
from headrace.loaders.video_set import VideoSet
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.video.frame_format import FrameFormat
from headrace.video.image_sequence import ImageSequence
from headrace.video.stream_index import StreamIndex

_WRITTEN_TOGETHER: Final = 32
_WRITTEN_BYTES: Final = 4 << 20
"""Frames, and about the bytes, that a job writes to the disk at once."""
_VERSION: Final = 1
"""Changes with what a frame of a number, format and codec looks like."""
_DECODED_AGAIN: Final = 0.05
"""Share of all frames that jobs may decode without storing them, so that the first batches do not
wait for whole GOPs. They are decoded once more when their GOP is stored."""


def is_storable(index: StreamIndex) -> bool:
    """Return whether a store takes frames of a video: not of proxies, nor of image sequences."""
    # Pictures may change one by one.
    return not (isinstance(index, ProxyIndex) or isinstance(index.source, ImageSequence))


def warn_of_spill(message: str) -> None:
    """Warn of frames that a disk does not give or take; also from the loader's threads."""
    warnings.warn(message, SpillWarning, stacklevel=2)


class Spill:
    """Frames of a video set in a store that other loaders may share. Thread-safe.

    The planner asks it what need not be decoded (`has`), and which jobs store their GOP (`plan`).
    """

    def __init__(
        self,
        store: SpillStore,
        videos: VideoSet,
        shapes: Sequence[FrameFormat],
        decoding: DecoderConfig,
    ) -> None:
        """Read nothing yet.

        Args:
            store: The store.
            videos: Videos of the loader.
            shapes: Format of each video's frames.
            decoding: What decodes them; others may differ in pixels.
        """
        self.store = store
        device = "" if decoding.backend == "pyav" else f" on {decoding.device}"
        self._decoder = f"{decoding.backend}{device}, {LIBRARIES}"
        self.packing: Packing = next(each for each in PACKINGS if each.takes(shapes[0]))
        """Codec of all frames in the store: the one with the smallest packets."""
        self._videos = videos
        self._shapes = shapes
        self._population = videos.decoded_population
        self._streams: dict[int, str] = {}
        self._is_stored = np.zeros(self._population.num_frames, np.bool_)
        self._decoded_again = 0
        self._lock = ForkSafeLock()

    def has(self, frame: int) -> bool:
        """Return whether a frame is stored, or a job that was planned will store it."""
        frame %= self._population.num_frames
        video = self._video_of(frame)
        self._stream(video)
        return bool(self._is_stored[frame])

    def plan(self, gop: int, frames: tuple[int, ...]) -> bool:
        """Return whether the job of `frames` is to decode its whole GOP and store it."""
        start, stop = self._population.gop_start[gop : gop + 2].tolist()
        if not (self.store.takes_frames and self._stream(self._video_of(start))):
            return False
        num_decoded = max(frame % self._population.num_frames for frame in frames) + 1 - start
        self._decoded_again += num_decoded
        if self._decoded_again <= _DECODED_AGAIN * self._population.num_frames:
            return False
        self._is_stored[start:stop] = True
        return True

    def unstored(self, video: int, gop: int) -> list[int]:
        """Return the frames of a GOP, by their index in the video, that are not stored."""
        start, stop = (self._population.gop_start[gop : gop + 2] - self._first(video)).tolist()
        is_stored = self.store.stored(self._stream(video), stop)[start:stop]
        return [start + frame for frame in np.flatnonzero(~is_stored).tolist()]

    def read(self, frame: int) -> bytes | None:
        """Return a packed frame; None where it is not stored, or damaged."""
        frame %= self._population.num_frames
        video = self._video_of(frame)
        packed = self.store.read(self._stream(video), frame - self._first(video))
        if packed is None:
            # The disk may have lost, refused or given up others of the video as well.
            first, stop = self._population.video_start[video : video + 2].tolist()
            self._is_stored[first:stop] = self.store.stored(self._stream(video), stop - first)
        return packed

    def forget(self, frame: int) -> None:
        """Decode a frame from now on: what is stored cannot be unpacked."""
        self._is_stored[frame % self._population.num_frames] = False

    def writer(self, video: int) -> "SpillWriter":
        """Return the writer of a job's frames."""
        return SpillWriter(self, self._stream(video))

    def _video_of(self, frame: int) -> int:
        return int(np.searchsorted(self._population.video_start, frame, side="right")) - 1

    def _first(self, video: int) -> int:
        return int(self._population.video_start[video])

    def _stream(self, video: int) -> str:
        """Return the key of a video's frames; empty where they are not stored: proxies."""
        with self._lock:
            if video not in self._streams:
                self._streams[video] = key = self._key(video)
                if key:
                    first, stop = self._population.video_start[video : video + 2].tolist()
                    self._is_stored[first:stop] |= self.store.stored(key, stop - first)
            return self._streams[video]

    def _key(self, video: int) -> str:
        index, shape = self._videos.indexes[video], self._shapes[video]
        if not is_storable(index):
            return ""
        try:
            content = index.source.content_id()
        except OpenError:
            return ""  # gone: the job that decodes it says so
        frames = f"{len(index)} frames, {zlib.crc32(index.pts.tobytes())}"
        file = f"{content}, {index.fingerprint.mtime_ns}, stream {index.source.stream}, {frames}"
        return f"{_VERSION}: {file}, {shape}, {self.packing.codec}, {self._decoder}"


class SpillWriter:
    """Writes the frames of one job to the store, some at a time."""

    def __init__(self, spill: Spill, stream: str) -> None:
        self.packing = spill.packing
        self._store = spill.store
        self._stream = stream
        self._frames: dict[int, bytes] = {}
        self._num_bytes = 0

    def add(self, frame: int, packed: bytes) -> None:
        """Add a final frame, by its index in the video."""
        self._frames[frame] = packed
        self._num_bytes += len(packed)
        if len(self._frames) == _WRITTEN_TOGETHER or self._num_bytes >= _WRITTEN_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was added."""
        if self._frames:
            self._store.write(self._stream, self._frames)
            self._frames, self._num_bytes = {}, 0
