"""Spill: frames of a video set that are stored on a local disk, and need not be decoded again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.spilled_decoder import SpillWriter, packing_of, spill_key
from headrace.loaders.video_set import VideoSet
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.video.frame_format import FrameFormat

_UNSTORED_BATCHES = 1
"""Number of first batches whose jobs store nothing, so that they do not wait for whole GOPs."""


@dataclass(kw_only=True, eq=False)
class Spill:
    """Frames of a video set in a store that other loaders may share. Thread-safe.

    For the planner, `has` returns which frames need not be decoded, `plan` which GOPs to store.
    """

    store: SpillStore
    videos: VideoSet
    """Videos of the loader."""
    shapes: Sequence[FrameFormat]
    """Format of each video's frames."""
    decoding: DecoderConfig
    """Decoder of the frames; the pixels of other decoders may differ."""
    _streams: dict[int, str] = field(default_factory=dict)
    _lock: ForkSafeLock = field(default_factory=ForkSafeLock)

    def __post_init__(self) -> None:
        self.packing = packing_of(self.shapes[0])
        """Codec of all its frames in the store."""
        self._unstored_batches = _UNSTORED_BATCHES
        self._population = self.videos.decoded_population
        self._is_stored = np.zeros(self._population.num_frames, np.bool_)

    def has(self, frame: int) -> bool:
        """Return whether a frame is stored, or a planned job will store it."""
        frame %= self._population.num_frames
        video = self._video_of(frame)
        self._stream(video)
        return bool(self._is_stored[frame])

    def unstored_batches(self) -> int:
        """Return the number of a run's first batches that store nothing; 0 after the first run."""
        unstored, self._unstored_batches = self._unstored_batches, 0
        return unstored

    def plan(self, gop: int) -> bool:
        """Return whether the next job should decode this GOP as a whole, and store it."""
        start, stop = self._population.gop_start[gop : gop + 2].tolist()
        if not (self.store.takes_frames and self._stream(self._video_of(start))):
            return False
        self._is_stored[start:stop] = True
        return True

    def unstored(self, video: int, gop: int) -> list[int]:
        """Return the frames of a GOP that are not stored, as indices in the video."""
        start, stop = (self._population.gop_start[gop : gop + 2] - self._first(video)).tolist()
        is_stored = self.store.stored(self._stream(video), stop)[start:stop]
        return [start + frame for frame in np.flatnonzero(~is_stored).tolist()]

    def read(self, frame: int) -> bytes | None:
        """Return a packed frame; None: it is not stored, or damaged."""
        frame %= self._population.num_frames
        video = self._video_of(frame)
        packed = self.store.read(self._stream(video), frame - self._first(video))
        if packed is None:
            # Other frames of the video may be missing as well.
            first, stop = self._population.video_start[video : video + 2].tolist()
            self._is_stored[first:stop] = self.store.stored(self._stream(video), stop - first)
        return packed

    def forget(self, frame: int) -> None:
        """Mark a frame as not stored, because it cannot be unpacked."""
        self._is_stored[frame % self._population.num_frames] = False

    def writer(self, video: int) -> SpillWriter:
        """Return a writer for frames of a video."""
        return SpillWriter(self.store, self._stream(video))

    def _video_of(self, frame: int) -> int:
        return int(np.searchsorted(self._population.video_start, frame, side="right")) - 1

    def _first(self, video: int) -> int:
        return int(self._population.video_start[video])

    def _stream(self, video: int) -> str:
        """Return the key of a video's frames; empty: they are never stored (proxies)."""
        with self._lock:
            if video not in self._streams:
                index, shape = self.videos.indexes[video], self.shapes[video]
                self._streams[video] = key = spill_key(index, shape, self.decoding)
                if key:
                    first, stop = self._population.video_start[video : video + 2].tolist()
                    self._is_stored[first:stop] |= self.store.stored(key, stop - first)
            return self._streams[video]
