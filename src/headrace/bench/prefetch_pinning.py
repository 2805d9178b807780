"""What pinned memory brings to a loop that prefetches, in words."""

from collections.abc import Sequence
from typing import Final

from headrace.bench.prefetch_record import PrefetchRow
from headrace.measuring.interleaved import AGAIN, ALIKE, Trust
from headrace.profiling.findings.finding import Change, Finding, times
from headrace.report.numbers import decimal, milliseconds

_WHAT_PINNED_MEMORY_DOES: Final = (
    "Pinned memory is page-locked: a GPU copies from it by itself, so that "
    "batch.to('cuda', non_blocking=True) returns at once and the copy overlaps with what the GPU "
    "computes; from other memory the loop waits until the batch is copied.",
    "It costs one more copy in main memory, which a thread of the DataLoader makes, and memory "
    "that the system can neither move nor swap out.",
)


def pinning(rows: Sequence[PrefetchRow], point: PrefetchRow, trust: Trust) -> Finding:
    """Return what pinned memory gains at the depth of `point`, or why it was not measured."""
    pinned = next(
        (row for row in rows if row.is_pinned and row.prefetch_factor == point.prefetch_factor),
        None,
    )
    if pinned is None or pinned.copy_ms is None or point.copy_ms is None:
        return Finding(
            headline="pin_memory was not measured: without a GPU it does nothing",
            evidence=("PyTorch warns and ignores it then.", *_WHAT_PINNED_MEMORY_DOES),
        )
    gain = pinned.rate.median / point.rate.median
    rates = f"{decimal(pinned.rate.median)} frames/s, {decimal(point.rate.median)} without it"
    headline = f"With pin_memory the loop is {times(gain)} as fast: {rates}"
    if trust.doubt:
        headline = f"{trust.doubt} what pin_memory brings; by the medians {rates}"
    elif ALIKE <= gain <= 1 / ALIKE:
        headline = f"pin_memory makes no difference to the rate: {rates}"
    held = (
        f"Handing a batch to the GPU holds the loop up for {milliseconds(pinned.copy_ms)} from "
        f"pinned memory, with non_blocking=True; for {milliseconds(point.copy_ms)} from other."
    )
    change = Change(
        words="pin_memory=True, and batch.to('cuda', non_blocking=True)", gain=gain, rests_on=rates
    )
    is_worth_it = gain > 1 / ALIKE and not trust.doubt
    return Finding(
        headline=headline,
        evidence=(held, *_WHAT_PINNED_MEMORY_DOES),
        change=AGAIN if trust.doubt else str(change) if is_worth_it else None,
        advice=change if is_worth_it else None,
    )
