"""LookaheadWindow: requests that a loader plans together, and the frames that it may hold."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.decode_cost import lookahead_cost, lookahead_for
from headrace.units import check_integers

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
        held_bytes = _held_bytes(memory_budget, frame_bytes, due_bytes, codec_bytes, batch_frames)

        def window(due: float) -> "LookaheadWindow":
            later_frames = (held_bytes - due) / (later_bytes or due_bytes)
            later, requests = max(0, int(later_frames * (1 - _RUN_AHEAD))), lookahead
            if requests is None:
                max_requests = _EPOCHS_AHEAD * int(gop_lengths.sum())
                mean_held = max(1, int(later * _FILLED))
                widest = lookahead_for(gop_lengths, mean_held, each_once=each_once)
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
    """Return the max frames that jobs decode for their own batch; its other frames are packed."""
    samples = batch_frames // sample_frames
    jobs = samples * lookahead_cost(gop_lengths, max(1, lookahead // sample_frames)).seeks
    per_job = samples if in_order else 1 + samples * gop_lengths.max() / gop_lengths.sum()
    return float(sample_frames * min(samples, per_job * max(1, _DUE_BATCHES * jobs)))


def _held_bytes(
    memory_budget: int, frame_bytes: int, due_bytes: int, codec_bytes: int, batch_frames: int
) -> int:
    """Return the bytes of a budget for held frames; raise ConfigError if they are too few."""
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
