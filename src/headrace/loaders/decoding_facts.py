"""Decoding facts of a loader: frames decoded per frame delivered, and options that lower it."""

from dataclasses import dataclass
from typing import Any, Literal

from headrace.decode.spilled_decoder import is_storable
from headrace.loaders.frame_loader import PlannedLoader
from headrace.loaders.lookahead_window import LookaheadWindow
from headrace.sampling.frame_samplers import Bursts
from headrace.units import parse_bytes

_PACKED_RATIO = 2
"""Assumed min compression ratio of packed frames, if packing was not timed."""


@dataclass(frozen=True, kw_only=True)
class DecodingFacts:
    """Facts for a `profiling.run_records.DecodingRecord`, which documents the fields."""

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
    """Return the facts of a `PlannedLoader`; None: another loader, or its window is not filled yet.

    Until the window is filled, more frames are decoded than delivered. Takes milliseconds.
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
    num_frames = len(choice.gop_lengths) * float(decoded_lengths.mean())  # in GOPs with samples
    optional: dict[str, Any] = {}
    if (stored := choice.stored_facts) is not None:
        optional["store_bytes"] = round(stored.bytes_per_frame * num_frames)
        optional["pack_ms"] = 1e3 * batch_frames * stored.pack_seconds
        optional["unpack_ms"] = 1e3 * batch_frames * stored.unpack_seconds
    expected = choice.expected_amplification(choice.window)
    if expected > 1 and (wider := _wider_window(loader)) is not None:
        # Disposable frames are decoded only if they are delivered: that scales the excess over 1
        # of both windows by the same factor.
        optional["wider"], window = wider
        wider_expected = choice.expected_amplification(window)
        scaled = 1 + (amplification - 1) * (wider_expected - 1) / (expected - 1)
        optional["wider_amplification"] = max(scaled, min(1.0, wider_expected))
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
    """Return an option that widens the window, as text, and the wider window.

    None: only `spill` would help, or `expected_amplification` does not apply to the sampler.
    """
    options, choice, window_of = loader._options, loader._choice, loader._window
    sampler, traits = loader._epochs.sampling, loader._epochs.sampling.traits
    if not traits.is_random or traits.spans_videos or isinstance(sampler, Bursts):
        return None
    later_bytes = None if choice.packing is None else choice.bytes_per_frame
    if options.lookahead is not None:
        advice = f"No lookahead={options.lookahead}, so that memory_budget decides"
        return advice, window_of(lookahead=None, later_bytes=later_bytes)
    if choice.hold in ("rgb", "yuv420") and not options.decoder().keeps_on_device:
        hold = "auto" if choice.hold == "rgb" else "packed_yuv420"
        advice = f'hold="{hold}", so that frames wait packed'
        return advice, window_of(later_bytes=choice.bytes_per_frame // _PACKED_RATIO)
    if _can_store(loader):
        return None
    budget = parse_bytes(options.memory_budget)
    advice = f"Twice the memory_budget, {options.memory_budget}"
    return advice, window_of(memory_budget=2 * budget, later_bytes=later_bytes)
