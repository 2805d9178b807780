"""HoldChoice: whether frames wait as pixels or packed, by what both cost with these videos."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.decode.frame_outputs import Array
from headrace.decode.packing import PACKINGS, Packer, Packing
from headrace.errors import BackendError
from headrace.loaders.lookahead_window import LookaheadWindow
from headrace.runtime.clock import Clock
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.sampling.decode_cost import DecodeCost, lookahead_cost, share_out
from headrace.video.frame_format import FrameFormat, Layout

Hold = Literal["auto", "rgb", "yuv420", "packed", "packed_yuv420"]
"""How decoded frames wait for their batch."""

LAYOUTS: Final[dict[str, Layout]] = {"yuv420": "yuv420", "packed_yuv420": "yuv420"}
"""Layout of frames that do not wait as RGB."""
_JOBS: Final = 8
"""Decode jobs that are timed before the choice; of each, one frame is packed and unpacked."""
_USUAL_RATIO: Final = 3
"""Expected ratio of packed frames, until some are measured."""
_CHANGE: Final = 0.03
"""Share by which the mean size of packed frames may change before the window is computed again."""


@dataclass(frozen=True, kw_only=True)
class PackedFrames:
    """How frames of a loader are packed, measured on its own frames."""

    codec: str
    """Lossless codec, by its name in FFmpeg."""
    bytes_per_frame: int
    """Bytes of a packed frame, in the mean."""
    ratio: float
    """Bytes of a frame's pixels ÷ `bytes_per_frame`."""
    pack_seconds: float
    """Time of one core to pack a frame, in the median; 0 if it was not measured."""
    unpack_seconds: float
    """Time of one core to unpack it, in the median; 0 if it was not measured."""


@dataclass(kw_only=True)
class PackingTrial:
    """One codec, timed on some frames of one format and size."""

    packing: Packing
    shape: FrameFormat
    clock: Clock
    is_exact: bool = True
    """Whether all frames came back as they were."""
    _packed_bytes: int = 0
    # The median is that of a machine at this work; the mean has what interrupts it.
    _pack_ns: list[int] = field(default_factory=list)
    _unpack_ns: list[int] = field(default_factory=list)

    @property
    def num_frames(self) -> int:
        """Frames that were timed."""
        return len(self._pack_ns)

    def add(self, other: "PackingTrial") -> None:
        """Add the frames of another trial of the same codec."""
        self._packed_bytes += other._packed_bytes
        self._pack_ns += other._pack_ns
        self._unpack_ns += other._unpack_ns
        self.is_exact &= other.is_exact

    @property
    def facts(self) -> PackedFrames:
        """Codec, mean size of its frames, and median times; 0 s without frames."""
        assert self.shape.size is not None
        mean_bytes = max(1, self._packed_bytes // max(1, self.num_frames))
        return PackedFrames(
            codec=self.packing.codec,
            bytes_per_frame=mean_bytes,
            ratio=self.shape.frame_bytes(self.shape.size) / mean_bytes,
            pack_seconds=median(self._pack_ns or [0]) / 1e9,
            unpack_seconds=median(self._unpack_ns or [0]) / 1e9,
        )

    def take(self, frame: Array) -> None:
        """Pack and unpack a frame, and take its time; a codec that fails is not exact."""
        packer, unpacked = Packer(self.packing, self.shape), np.empty_like(frame)
        try:
            packer.unpack(packer.pack(frame), unpacked)  # opens the codec
            started_ns = self.clock.now_ns()
            packed = packer.pack(frame)
            packed_ns = self.clock.now_ns()
            packer.unpack(packed, unpacked)
        except BackendError:
            self.is_exact = False
            return
        self._unpack_ns.append(self.clock.now_ns() - packed_ns)
        self._pack_ns.append(packed_ns - started_ns)
        self._packed_bytes += len(packed)
        self.is_exact &= np.array_equal(unpacked, frame)


def trials_of(shape: FrameFormat, clock: Clock) -> list[PackingTrial]:
    """Return a trial of each codec that packs frames of a format."""
    return [
        PackingTrial(packing=packing, shape=shape, clock=clock)
        for packing in PACKINGS
        if packing.pixel_format(shape)
    ]


@dataclass(kw_only=True, eq=False)
class HoldChoice:
    """How frames wait, and how far the loader looks ahead with it. Thread-safe.

    Frames wait as pixels until the first jobs have been timed; then `hold` is settled. What a batch
    contains does not depend on it.
    """

    hold: Hold
    shape: FrameFormat
    """Format of frames that wait, with a size."""
    window_of: Callable[[int | None], LookaheadWindow]
    """Returns the window with packed frames of so many bytes; None: with pixels."""
    gop_lengths: NDArray[np.int64]
    sample_frames: int
    """Frames of a sample: 1, or those of a clip."""
    is_random: bool
    """Whether frames are drawn in random order, so that GOPs are decoded several times."""
    clock: Clock
    packing: Packing | None = None
    """Codec of frames that are decoded from now on, and wait for a later batch; None: pixels."""
    window: LookaheadWindow = field(init=False)
    _jobs: list[tuple[int, float]] = field(default_factory=list)
    _packed_frames: int = 0
    _packed_bytes: int = 0

    def __post_init__(self) -> None:
        assert self.shape.size is not None
        self._lock = ForkSafeLock()
        self._raw_bytes = self.shape.frame_bytes(self.shape.size)
        self.window = self.window_of(None)
        self._mean_bytes = self._raw_bytes
        self._trials = trials_of(self.shape, self.clock)
        requests = max(self.window.lookahead, int(self.gop_lengths.sum()))
        fits = self.window.later_frames >= requests
        is_given = self.hold in ("rgb", "yuv420") or self.packing is not None
        self.is_open = not (is_given or (self.hold == "auto" and (fits or not self.is_random)))
        """Whether the choice is still to be made."""
        if self.packing is not None or self.is_open:
            # Until sizes are known, as many frames wait as fit as pixels. But parts of the window
            # until a GOP is decoded again are those of the wide one: otherwise GOPs that are
            # decoded now would be decoded together ever after.
            wide = self.window_of(self._raw_bytes // _USUAL_RATIO)
            self.window = replace(self.window, lookahead=wide.lookahead)

    @property
    def bytes_per_frame(self) -> int:
        """Mean bytes of a frame that waits for a later batch, decoded from now on."""
        return self._raw_bytes if self.packing is None else self._mean_bytes

    @property
    def facts(self) -> PackedFrames | None:
        """How frames are packed; None while they wait as pixels."""
        if self.packing is None or not (self._packed_frames or self._jobs):
            return None
        trial = next(trial for trial in self._trials if trial.packing == self.packing)
        ratio = self._raw_bytes / self._mean_bytes
        return replace(trial.facts, bytes_per_frame=self._mean_bytes, ratio=ratio)

    @property
    def stored_facts(self) -> PackedFrames | None:
        """How a store on a disk would pack frames; None: not timed, or not exact."""
        trial = next(iter(self._trials), None)
        return trial.facts if trial and trial.num_frames and trial.is_exact else None

    def expected_amplification(self, window: LookaheadWindow) -> float:
        """Return the frames decoded per frame delivered, for frames in random order."""
        return self._cost(window).amplification / self.sample_frames

    def limits(self) -> tuple[int, int]:
        """Return the present (lookahead, frames held for later batches)."""
        return self.window.lookahead, self.window.later_frames

    def count_packed(self, sizes: Sequence[int]) -> None:
        """Count frames that were packed, by their bytes; the window follows their mean."""
        with self._lock:
            self._packed_frames += len(sizes)
            self._packed_bytes += sum(sizes)
            mean = self._packed_bytes // max(1, self._packed_frames)
            if abs(mean - self._mean_bytes) > _CHANGE * self._mean_bytes:
                self._resize(mean)

    def observe(self, num_frames: int, seconds: float, frame: Array) -> bool:
        """Take a decode job into account, while the choice is open; takes some milliseconds.

        Returns: whether the choice was made, for packed frames.

        Args:
            num_frames: Frames from the keyframe to the last one that was wanted.
            seconds: Duration of the job.
            frame: One of its frames, in the format's layout.
        """
        with self._lock:
            if not self.is_open:
                return False
            self._jobs.append((num_frames, seconds))
            for trial in self._trials:
                trial.take(frame)
            if len(self._jobs) == _JOBS:
                self._choose()
            return self.packing is not None

    def _choose(self) -> None:
        """Settle on the layout that costs least for a delivered frame."""
        counts = np.array([(1, num_frames) for num_frames, _ in self._jobs], np.float64)
        timed = np.maximum([seconds for _, seconds in self._jobs], 1e-9)
        seek, frame = share_out(counts, timed)
        options: list[tuple[float, int, Packing | None]] = []
        if self.hold == "auto":
            plain = self._seconds(self.window_of(None), seek, frame, 0.0, 0.0)
            options.append((plain, self._raw_bytes, None))
        for trial in self._trials:
            if not trial.is_exact:
                continue
            facts = trial.facts
            window = self.window_of(facts.bytes_per_frame)
            seconds = self._seconds(window, seek, frame, facts.pack_seconds, facts.unpack_seconds)
            options.append((seconds, facts.bytes_per_frame, trial.packing))
        if not options:
            raise BackendError(
                f"no codec packs these frames bit for bit; give hold={self.shape.layout!r}"
            )
        _, mean, self.packing = min(options, key=lambda option: option[0])
        self._resize(mean)
        self.is_open = False

    def _seconds(
        self, window: LookaheadWindow, seek: float, frame: float, pack: float, unpack: float
    ) -> float:
        """Return the time of one core for a delivered frame; `docs/explanation/sampling.md`."""
        cost = self._cost(window)
        decoded = cost.amplification / self.sample_frames
        seeks = cost.seeks / self.sample_frames
        # A frame that one decoding delivers to several batches is packed once.
        return seek * seeks + frame * decoded + pack * min(1.0, decoded) + unpack

    def _cost(self, window: LookaheadWindow) -> DecodeCost:
        return lookahead_cost(self.gop_lengths, max(1, window.lookahead // self.sample_frames))

    def _resize(self, mean: int) -> None:
        self._mean_bytes = max(1, mean)
        self.window = self.window_of(None if self.packing is None else self._mean_bytes)
