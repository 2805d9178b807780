"""Window: how far a loader looks ahead and how much it may hold, inside a memory budget."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.decode_cost import lookahead_for
from headrace.units import check_integers

_RUN_AHEAD = 0.03
"""Share of the held frames that decoders may be ahead of the plan, so that they need not wait for
every batch to be taken."""

_CODECS_SHARE = 4
"""At most this part of the budget is set aside for codecs: a quarter."""

_FILLED = 0.95
"""Share of what may be held for later that is held on average. It swings: fuller, frames are often
refused and decoded again; emptier, the window is narrower. Best of 0.85 to 1.1 on the benchmark's
media at 256 MiB and 1 GiB."""
_EPOCHS_AHEAD = 4
"""Where all frames fit, each is decoded once in so many epochs; further ahead, planning would take
longer than the decoding that it saves."""


@dataclass(frozen=True, kw_only=True)
class LookaheadWindow:
    """Frames are counted at their size in the model."""

    lookahead: int
    """Requests for single frames that the planner sees."""
    first: int
    """Those that it sees at the beginning: a batch of them, so that the first batch does not wait
    for what is only needed later; all of them where `lookahead` was asked for."""
    later_frames: int
    """Different frames that may be held for batches to come."""
    frames: int
    """Different frames that may be held at all: for the batch at hand, for those to come, and
    decoded ahead of the plan."""

    @classmethod
    def of(
        cls,
        gop_lengths: NDArray[np.int64],
        *,
        memory_budget: int,
        frame_bytes: int,
        held_bytes: int | None = None,
        codec_bytes: int = 0,
        batch_frames: int,
        each_once: bool = False,
        lookahead: int | None = None,
    ) -> "LookaheadWindow":
        """Return the widest window that the budget allows.

        Set aside from the budget are two batches, the one the caller has and the next one, and
        what codecs need, up to a quarter.

        Args:
            gop_lengths: int64 [GOPs] of all videos.
            memory_budget: Bytes.
            frame_bytes: Bytes of a frame in a batch.
            held_bytes: Bytes of a frame while it waits; None means the same.
            codec_bytes: Bytes that the codecs of all workers need.
            batch_frames: Frames in a batch, those of all its clips.
            each_once: Whether a frame that was asked for is not soon asked for again.
            lookahead: Requests to see; None takes as many as are expected to fit, and begins with
                a batch of them.

        Raises:
            ConfigError: the budget does not hold three batches, or `lookahead` is below 1.
        """
        check_integers(1, lookahead=lookahead)
        held_bytes = held_bytes or frame_bytes
        codecs = min(codec_bytes, memory_budget // _CODECS_SHARE)
        frames = (memory_budget - codecs - 2 * batch_frames * frame_bytes) // held_bytes
        if frames < batch_frames:
            batches = batch_frames * (2 * frame_bytes + held_bytes)
            needed = min(batches + codec_bytes, batches * _CODECS_SHARE // (_CODECS_SHARE - 1) + 1)
            raise ConfigError(
                f"a memory budget of {_mebibytes(memory_budget)} MiB does not hold three batches "
                f"of {batch_frames} frames of {frame_bytes} bytes (the caller's, the next one, and "
                f"what is decoded for it) and the codecs: {_mebibytes(needed)} MiB are "
                "needed; raise it, or ask for a smaller batch or size"
            )
        later = int((frames - batch_frames) * (1 - _RUN_AHEAD))
        first = lookahead or batch_frames
        if lookahead is None:
            most = _EPOCHS_AHEAD * int(gop_lengths.sum())
            usual = max(1, int(later * _FILLED))
            widest = lookahead_for(gop_lengths, usual, each_once=each_once)
            lookahead = max(batch_frames, min(most, widest))
        return cls(lookahead=lookahead, first=first, later_frames=later, frames=frames)


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.{0 if count >= 10 * 2**20 else 3}f}"
