"""LookaheadWindow: how far a loader looks ahead, and what its memory budget holds meanwhile."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.decode_cost import lookahead_cost, lookahead_for
from headrace.units import check_integers

_RUN_AHEAD = 0.03
"""Share of the held frames that threads may decode ahead of the plan, so that they do not wait for
each batch to be taken."""

_DUE_BATCHES = 2
"""Batches whose due frames are decoded at a time where frames wait packed: threads decode those of
the next batch while the last ones of the current batch are decoded."""

_CODECS_SHARE = 4
"""Codecs are reserved at most a quarter of the budget."""

_FILLED = 0.95
"""Mean share of `later_frames` that is in use. The use varies: above this share, frames are often
refused and decoded again; below it, the window is narrower. Best of 0.85 to 1.1 on the benchmark's
media at 256 MiB and 1 GiB."""
_EPOCHS_AHEAD = 4
"""Epochs that are planned together at most: where all frames fit, each is decoded once in that
many; further ahead, planning would take longer than the decoding it saves."""


@dataclass(frozen=True, kw_only=True)
class LookaheadWindow:
    """Look-ahead and capacities of a loader, in frames of the loader's size."""

    lookahead: int
    """Requests for single frames that are planned together."""
    first: int
    """Requests of the first plan: one batch, so that the first batch does not wait for later
    frames; `lookahead` where the caller gave one."""
    later_frames: int
    """Different frames that may be held for later batches."""
    held_bytes: int
    """Bytes of all frames that may be held: for the current batch, for later batches, and decoded
    ahead of the plan."""

    @classmethod
    def of(
        cls,
        gop_lengths: NDArray[np.int64],
        *,
        memory_budget: int,
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

        Two batches, the caller's and the next one, and codecs, up to a quarter of the budget, are
        reserved.

        Args:
            gop_lengths: int64 [GOPs] of all videos.
            memory_budget: Bytes.
            frame_bytes: Bytes of a frame in a batch.
            due_bytes: Bytes of a frame of the current batch; None means `frame_bytes`.
            later_bytes: Bytes of a frame that waits for a later batch, if it is packed; None means
                `due_bytes`.
            codec_bytes: Bytes that the codecs of all threads need.
            batch_frames: Frames in a batch, those of all its clips.
            sample_frames: Frames of a sample: 1, or those of a clip.
            each_once: Whether a requested frame is not soon requested again.
            in_order: Whether frames are requested as they are decoded.
            lookahead: Requests planned together; None takes as many as are expected to fit, and
                starts with one batch.

        Raises:
            ConfigError: the budget does not hold three batches, or `lookahead` is below 1.
        """
        check_integers(1, lookahead=lookahead)
        due_bytes, first = due_bytes or frame_bytes, lookahead or batch_frames
        held_bytes = _held_bytes(memory_budget, frame_bytes, due_bytes, codec_bytes, batch_frames)

        def window(due: float) -> "LookaheadWindow":
            later_frames = (held_bytes - due) / (later_bytes or due_bytes)
            later, requests = max(0, int(later_frames * (1 - _RUN_AHEAD))), lookahead
            if requests is None:
                max_requests = _EPOCHS_AHEAD * int(gop_lengths.sum())
                usual = max(1, int(later * _FILLED))
                widest = lookahead_for(gop_lengths, usual, each_once=each_once)
                requests = max(batch_frames, min(max_requests, widest))
            return cls(lookahead=requests, first=first, later_frames=later, held_bytes=held_bytes)

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
    """Return the frames that jobs decode for their batch alone; others have waited, packed."""
    samples = batch_frames // sample_frames
    jobs = samples * lookahead_cost(gop_lengths, max(1, lookahead // sample_frames)).seeks
    of_job = samples if in_order else 1 + samples * gop_lengths.max() / gop_lengths.sum()
    return float(sample_frames * min(samples, of_job * max(1, _DUE_BATCHES * jobs)))


def _held_bytes(
    memory_budget: int, frame_bytes: int, due_bytes: int, codec_bytes: int, batch_frames: int
) -> int:
    """Return the bytes of a budget that remain for frames; raise where it holds too few."""
    reserved = min(codec_bytes, memory_budget // _CODECS_SHARE)
    held_bytes = memory_budget - reserved - 2 * batch_frames * frame_bytes
    if held_bytes < batch_frames * due_bytes:
        batches = batch_frames * (2 * frame_bytes + due_bytes)
        needed = min(batches + codec_bytes, batches * _CODECS_SHARE // (_CODECS_SHARE - 1) + 1)
        raise ConfigError(
            f"a memory budget of {_mebibytes(memory_budget)} MiB does not hold three batches "
            f"of {batch_frames} frames of {frame_bytes} bytes (the caller's, the next one, and "
            f"frames decoded for it) and the codecs: {_mebibytes(needed)} MiB are "
            "needed; raise it, or ask for a smaller batch or size"
        )
    return held_bytes


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.{0 if count >= 10 * 2**20 else 3}f}"
