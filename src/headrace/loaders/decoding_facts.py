"""Decoding facts of a loader: how often it decodes its frames, and what would decode fewer."""

from dataclasses import dataclass
from typing import Any, Literal

from headrace.decode.spilled_decoder import is_storable
from headrace.loaders.frame_loader import PlannedLoader
from headrace.loaders.lookahead_window import LookaheadWindow
from headrace.sampling.bursts import Bursts
from headrace.units import parse_bytes

_PACKED_RATIO = 2
"""Ratio of packed frames that is expected at least, where packing was not timed."""


@dataclass(frozen=True, kw_only=True)
class DecodingFacts:
    """Fields of `profiling.run_records.DecodingRecord`, which explains them."""

    amplification: float
    starved_ms: float
    threads: int
    is_packed: bool
    store: Literal["used", "possible", "impossible"]
    store_amplification: float
    store_bytes: int | None = None
    pack_ms: float | None = None
    unpack_ms: float | None = None
    wider: str | None = None
    wider_amplification: float | None = None


def describe_decoding(loader: object) -> DecodingFacts | None:
    """Return the facts of a loader that plans its decoding; None: of another, or not filled yet.

    Until the look-ahead is filled, frames are decoded for batches to come. Cost: milliseconds.
    """
    if not isinstance(loader, PlannedLoader) or loader._filled is None:
        return None
    before, now, choice = loader._filled, loader.statistics, loader._choice
    delivered = now.frames_delivered - before.frames_delivered
    if not delivered:
        return None
    amplification = (now.frames_decoded - before.frames_decoded) / delivered
    starved_seconds = (now.starved_seconds - before.starved_seconds) / delivered
    epochs, decoded_lengths = loader._epochs, loader._videos.decoded_population.gop_lengths
    batch_frames = choice.sample_frames * epochs.largest_step
    num_frames = len(choice.gop_lengths) * float(decoded_lengths.mean())  # of GOPs with samples
    optional: dict[str, Any] = {}
    if (stored := choice.stored_facts) is not None:
        optional["store_bytes"] = round(stored.bytes_per_frame * num_frames)
        optional["pack_ms"] = 1e3 * batch_frames * stored.pack_seconds
        optional["unpack_ms"] = 1e3 * batch_frames * stored.unpack_seconds
    expected = choice.expected_amplification(choice.window)
    if expected > 1 and (wider := _wider_window(loader)) is not None:
        # Disposable frames, decoded only to be delivered, lower both excesses over 1 by one share.
        optional["wider"], window = wider
        then = choice.expected_amplification(window)
        scaled = 1 + (amplification - 1) * (then - 1) / (expected - 1)
        optional["wider_amplification"] = max(scaled, min(1.0, then))
    return DecodingFacts(
        amplification=amplification,
        starved_ms=1e3 * batch_frames * starved_seconds,
        threads=loader._num_threads,
        is_packed=choice.packing is not None,
        store="used" if loader._spill else "possible" if _can_store(loader) else "impossible",
        store_amplification=num_frames / (choice.sample_frames * len(epochs.order(0))),
        **optional,
    )


def _can_store(loader: PlannedLoader[Any]) -> bool:
    keeps_on_device = loader._options.decoder().keeps_on_device
    can_store = not (keeps_on_device or loader._frame_views.is_augmented)
    return can_store and all(map(is_storable, loader._videos.indexes))


def _wider_window(loader: PlannedLoader[Any]) -> tuple[str, LookaheadWindow] | None:
    """Return an option with which the loader looks further ahead, and its window.

    None: there is none but a disk, or `expected_amplification` is not that of the sampler.
    """
    options, choice, window_of = loader._options, loader._choice, loader._window
    sampler, traits = loader._epochs.sampling, loader._epochs.sampling.traits
    if not traits.is_random or traits.spans_videos or isinstance(sampler, Bursts):
        return None
    later_bytes = None if choice.packing is None else choice.bytes_per_frame
    if options.lookahead is not None:
        words = f"No lookahead={options.lookahead}, so that memory_budget decides"
        return words, window_of(lookahead=None, later_bytes=later_bytes)
    if choice.hold in ("rgb", "yuv420") and not options.decoder().keeps_on_device:
        hold = "auto" if choice.hold == "rgb" else "packed_yuv420"
        words = f'hold="{hold}", so that frames wait packed'
        return words, window_of(later_bytes=choice.bytes_per_frame // _PACKED_RATIO)
    if _can_store(loader):
        return None
    budget = parse_bytes(options.memory_budget)
    words = f"Twice the memory_budget, {options.memory_budget}"
    return words, window_of(memory_budget=2 * budget, later_bytes=later_bytes)
