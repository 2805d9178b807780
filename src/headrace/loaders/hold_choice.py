"""Lookahead window of a loader, and HoldChoice: whether frames wait as pixels or packed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.decode.exact_planes import PlanesSample
from headrace.decode.frame_outputs import Array
from headrace.decode.packing import PackedFrames, Packing, exact_planes, trials_of
from headrace.errors import BackendError, ConfigError
from headrace.runtime.clock import Clock
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.sampling.decode_cost import DecodeCost, lookahead_cost, lookahead_for, share_out
from headrace.units import check_integers
from headrace.video.frame_format import FrameFormat, Layout

Hold = Literal["auto", "rgb", "yuv420", "packed", "packed_yuv420"]
"""Format of decoded frames that wait for their batch."""

LAYOUTS: Final[dict[str, Layout]] = {"yuv420": "yuv420", "packed_yuv420": "yuv420"}
"""Hold → layout of waiting frames, if it is not RGB."""
_JOBS: Final = 8
"""Decode jobs that are timed before the choice; one frame of each is packed and unpacked."""
_USUAL_RATIO, _PLANES_RATIO = 3, 4
"""Assumed compression ratios of packed frames, and of frames that may be packed as exact planes,
until they are measured."""
_CHANGE: Final = 0.03
"""Relative change of the mean size of packed frames that resizes the window."""


_RUN_AHEAD = 0.03
"""Share of the held frames that threads may decode ahead of the plan, so that they do not wait for
batches to be taken."""

_DUE_BATCHES = 2
"""Batches whose due frames are decoded at the same time if frames wait packed: threads start with
the next batch while the last frames of the current one are decoded."""

_CODECS_SHARE = 4
"""Memory budget ÷ max memory reserved for codecs."""

_FILLED = 0.95
"""Mean share of `later_frames` that the window should use. Use varies: with a higher share, frames
often do not fit and are decoded again; with a lower one, the window is narrower. Best of 0.85 to
1.1 on the benchmark's media at 256 MiB and 1 GiB."""
_EPOCHS_AHEAD = 4
"""Max epochs that are planned together. If all frames fit, each is decoded once in as many epochs;
with more, planning would take longer than the decoding it saves."""


@dataclass(frozen=True, kw_only=True)
class LookaheadWindow:
    """Lookahead of a loader, and the memory for held frames."""

    lookahead: int
    """Requests for single frames that are planned together."""
    first: int
    """Requests of the first plan: one batch, so that the first batch does not wait for frames of
    later ones; or the `lookahead` of the caller."""
    later_frames: int
    """Max distinct frames held for later batches."""
    held_bytes: int
    """Max bytes of held frames: for the current batch, for later batches, and decoded ahead of the
    plan."""

    @classmethod
    def of(
        cls,
        gop_lengths: NDArray[np.int64],
        *,
        memory_budget: int,
        size: tuple[int, int],
        frame_bytes: int,
        due_bytes: int | None = None,
        later_bytes: int | None = None,
        codec_bytes: int = 0,
        batch_frames: int,
        sample_frames: int = 1,
        each_once: bool = False,
        in_order: bool = False,
        lookahead: int | None = None,
    ) -> "LookaheadWindow":
        """Return the widest window that the budget allows.

        Memory is reserved for two batches, the caller's and the next one, and for codecs, up to a
        quarter of the budget.

        Args:
            gop_lengths: int64 [GOPs] of all videos.
            memory_budget: Bytes.
            size: (height, width) of a frame in a batch, for messages.
            frame_bytes: Bytes of a frame in a batch.
            due_bytes: Bytes of a decoded frame for the current batch; None: `frame_bytes`.
            later_bytes: Bytes of a packed frame that waits for a later batch; None: frames wait
                with `due_bytes`.
            codec_bytes: Bytes that the codecs of all threads need.
            batch_frames: Frames in a batch, over all its clips.
            sample_frames: Frames of a sample: 1, or the frames of a clip.
            each_once: Whether a frame is not requested again soon.
            in_order: Whether frames are requested in the order of decoding.
            lookahead: Requests planned together; None: as many as are expected to fit, starting
                with one batch.

        Raises:
            ConfigError: the budget does not hold three batches, or `lookahead` is below 1.
        """
        check_integers(1, lookahead=lookahead)
        due_bytes, first = due_bytes or frame_bytes, lookahead or batch_frames
        held = _held_bytes(memory_budget, size, frame_bytes, due_bytes, codec_bytes, batch_frames)

        def window(due: float) -> "LookaheadWindow":
            later_frames = (held - due) / (later_bytes or due_bytes)
            later, requests = max(0, int(later_frames * (1 - _RUN_AHEAD))), lookahead
            if requests is None:
                max_requests = _EPOCHS_AHEAD * int(gop_lengths.sum())
                mean_held = max(1, int(later * _FILLED))
                widest = lookahead_for(gop_lengths, mean_held, each_once=each_once)
                requests = max(batch_frames, min(max_requests, widest))
            return cls(lookahead=requests, first=first, later_frames=later, held_bytes=held)

        raw = window(batch_frames * due_bytes)
        if later_bytes is None:
            return raw
        due = _due_frames(gop_lengths, raw.lookahead, batch_frames, sample_frames, in_order)
        return window(batch_frames * later_bytes + due * due_bytes)


def _due_frames(
    gop_lengths: NDArray[np.int64],
    lookahead: int,
    batch_frames: int,
    sample_frames: int,
    in_order: bool,
) -> float:
    """Return the max frames that jobs decode for their own batch; its other frames are packed."""
    samples = batch_frames // sample_frames
    jobs = samples * lookahead_cost(gop_lengths, max(1, lookahead // sample_frames)).seeks
    per_job = samples if in_order else 1 + samples * gop_lengths.max() / gop_lengths.sum()
    return float(sample_frames * min(samples, per_job * max(1, _DUE_BATCHES * jobs)))


def _held_bytes(
    memory_budget: int,
    size: tuple[int, int],
    frame_bytes: int,
    due_bytes: int,
    codec_bytes: int,
    batch_frames: int,
) -> int:
    """Return the bytes of a budget for held frames; raise ConfigError if they are too few."""
    reserved = min(codec_bytes, memory_budget // _CODECS_SHARE)
    held_bytes = memory_budget - reserved - 2 * batch_frames * frame_bytes
    if held_bytes < batch_frames * due_bytes:
        batches = batch_frames * (2 * frame_bytes + due_bytes)
        needed = min(batches + codec_bytes, batches * _CODECS_SHARE // (_CODECS_SHARE - 1) + 1)
        raise ConfigError(
            f"a memory budget of {_mebibytes(memory_budget)} MiB does not hold three batches "
            f"of {batch_frames} frames of size {size}, {frame_bytes} bytes each (the caller's, the "
            f"next one, and frames decoded for it) and the codecs: {_mebibytes(needed)} MiB are "
            "needed; ask for a smaller size or batch, or for more memory"
        )
    return held_bytes


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.{0 if count >= 10 * 2**20 else 3}f}"


@dataclass(kw_only=True, eq=False)
class HoldChoice:
    """Format of waiting frames, and the lookahead window that it allows. Thread-safe.

    Frames wait as pixels until the first jobs have been timed; then the choice is made. Batches do
    not depend on it.
    """

    hold: Hold
    shape: FrameFormat
    """Format of waiting frames, with a size."""
    window_of: Callable[..., LookaheadWindow]
    """`LookaheadWindow.of` with the loader's arguments, except `later_bytes`."""
    gop_lengths: NDArray[np.int64]
    sample_frames: int
    """Frames of a sample: 1, or the frames of a clip."""
    is_random: bool
    """Whether the order is random, so that GOPs may be decoded several times."""
    clock: Clock
    packing: Packing | None = None
    """Codec of frames decoded from now on that wait for a later batch; None: pixels."""
    window: LookaheadWindow = field(init=False)
    _jobs: list[tuple[int, float]] = field(default_factory=list)
    _convert_seconds: list[float] = field(default_factory=list)
    """Time to convert a frame to RGB, if it is known; else it is part of the jobs."""
    _packed_frames: int = 0
    _packed_bytes: int = 0

    def __post_init__(self) -> None:
        assert self.shape.size is not None
        self._lock = ForkSafeLock()
        self._raw_bytes = self.shape.frame_bytes(self.shape.size)
        self.window = self.window_of()
        self._mean_bytes = self._raw_bytes
        self._trials = trials_of(self.shape, self.clock)
        requests = max(self.window.lookahead, int(self.gop_lengths.sum()))
        fits = self.window.later_frames >= requests
        is_given = self.hold in ("rgb", "yuv420") or self.packing is not None
        self.is_open = not (is_given or (self.hold == "auto" and (fits or not self.is_random)))
        """Whether the choice is not made yet."""
        if self.packing is not None or self.is_open:
            # Until sizes are known, only as many frames wait as fit as pixels. But the planner
            # gets the wide lookahead now: with a narrow one, it would spread the next decodes of
            # the GOPs over the narrow window, and they would stay bunched together.
            ratio = _USUAL_RATIO if exact_planes(self.shape) is None else _PLANES_RATIO
            wide = self.window_of(later_bytes=self._raw_bytes // ratio)
            self.window = replace(self.window, lookahead=wide.lookahead)

    @property
    def bytes_per_frame(self) -> int:
        """Mean bytes of a frame decoded from now on that waits for a later batch."""
        return self._raw_bytes if self.packing is None else self._mean_bytes

    @property
    def facts(self) -> PackedFrames | None:
        """Packing of waiting frames; None while they wait as pixels."""
        if self.packing is None or not (self._packed_frames or self._jobs):
            return None
        trial = next(trial for trial in self._trials if trial.packing == self.packing)
        ratio = self._raw_bytes / self._mean_bytes
        return replace(trial.facts, bytes_per_frame=self._mean_bytes, ratio=ratio)

    @property
    def stored_facts(self) -> PackedFrames | None:
        """Packing of frames in a store on a disk; None: not timed, or not exact."""
        trial = next(iter(self._trials), None)
        return trial.facts if trial and trial.num_frames and trial.is_exact else None

    def expected_amplification(self, window: LookaheadWindow) -> float:
        """Return the frames decoded per frame delivered, for frames in random order."""
        return self._cost(window).amplification / self.sample_frames

    def limits(self) -> tuple[int, int]:
        """Return the current lookahead, and max frames held for later batches."""
        return self.window.lookahead, self.window.later_frames

    def count_packed(self, sizes: Sequence[int]) -> None:
        """Count packed frames by their bytes, and resize the window if their mean size changed."""
        with self._lock:
            self._packed_frames += len(sizes)
            self._packed_bytes += sum(sizes)
            mean = self._packed_bytes // max(1, self._packed_frames)
            if abs(mean - self._mean_bytes) > _CHANGE * self._mean_bytes:
                self._resize(mean)

    def observe(
        self,
        num_decoded: int,
        seconds: float,
        frames: Sequence[Array],
        sample: PlanesSample | None = None,
    ) -> bool:
        """Record a decode job while the choice is open; takes a few milliseconds.

        Args:
            num_decoded: Frames from the keyframe to the last wanted one.
            seconds: Duration of the job.
            frames: Its wanted frames, in the format's layout.
            sample: Exact planes of the first of them, timed during the job.

        Returns:
            Whether this job settled the choice, for packed frames.
        """
        with self._lock:
            if not self.is_open:
                return False
            if sample is not None:
                self._convert_seconds.append(sample.rgb_ns / 1e9)
                seconds -= (sample.spent_ns + sample.rgb_ns * len(frames)) / 1e9
            self._jobs.append((num_decoded, seconds))
            for trial in self._trials:
                trial.measure(frames[0], sample)
            if len(self._jobs) == _JOBS:
                self._choose()
            return self.packing is not None

    def _choose(self) -> None:
        """Choose the format with the lowest cost per delivered frame."""
        counts = np.array([(1, num_frames) for num_frames, _ in self._jobs], np.float64)
        timed = np.maximum([seconds for _, seconds in self._jobs], 1e-9)
        seek, frame = share_out(counts, timed)
        options: list[tuple[float, int, Packing | None]] = []
        if self.hold == "auto":
            seconds = self._seconds(self.window_of(), seek, frame, 0.0, 0.0)
            options.append((seconds, self._raw_bytes, None))
        for trial in self._trials:
            if not trial.is_exact:
                continue
            facts = trial.facts
            window = self.window_of(later_bytes=facts.bytes_per_frame)
            seconds = self._seconds(window, seek, frame, facts.pack_seconds, facts.unpack_seconds)
            options.append((seconds, facts.bytes_per_frame, trial.packing))
        if not options:
            raise BackendError(
                f"no codec packs these frames losslessly; use hold={self.shape.layout!r}"
            )
        _, mean, self.packing = min(options, key=lambda option: option[0])
        self._resize(mean)
        self.is_open = False

    def _seconds(
        self, window: LookaheadWindow, seek: float, frame: float, pack: float, unpack: float
    ) -> float:
        """Return the core seconds per delivered frame: see `docs/explanation/sampling.md`."""
        cost = self._cost(window)
        decoded = cost.amplification / self.sample_frames
        seeks = cost.seeks / self.sample_frames
        # A frame that one decode delivers to several batches is converted and packed once.
        once = median(self._convert_seconds or [0.0]) + pack
        return seek * seeks + frame * decoded + once * min(1.0, decoded) + unpack

    def _cost(self, window: LookaheadWindow) -> DecodeCost:
        return lookahead_cost(self.gop_lengths, max(1, window.lookahead // self.sample_frames))

    def _resize(self, mean_bytes: int) -> None:
        self._mean_bytes = max(1, mean_bytes)
        self.window = self.window_of(later_bytes=None if self.packing is None else self._mean_bytes)
