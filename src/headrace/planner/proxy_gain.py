"""Proxy gain: predicted rate of random frames from proxies ÷ from originals."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.atomic_file import write_whole
from headrace.decode.index_store import IndexStore
from headrace.decode.proxies import ProxyRow
from headrace.extraction.proxies.proxy_extraction import ProxyTotals
from headrace.loaders.planned_loader import max_open_files
from headrace.loaders.video_set import VideoSet
from headrace.planner.decode_speed import MeasuredSpeed, measure_speed
from headrace.planner.plan_config import PlanConfig
from headrace.planner.planner import loader_budget
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.processor_affinity import available_cores
from headrace.sampling.strategies import compare
from headrace.units import parse_bytes
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

RECORD: Final = "proxies.json"
"""File name of the record, in the folder of the proxies."""
_MOST_TIMED: Final = 48
"""Max timed videos: their indexes are held in memory."""
_EXACT: Final = ("naive", "look-ahead", "look-ahead, shuffled", "bursts")


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Predicted frames per second of one strategy: decoding timed, the rest by the cost model."""

    strategy: str
    before: float
    """From the originals."""
    after: float
    """From the proxies."""


@dataclass(frozen=True, kw_only=True)
class ProxyGain:
    """Predicted gains of proxies."""

    batch_size: int
    memory_budget: str
    size: tuple[int, int]
    """(height, width) of the frames in a batch."""
    gains: tuple[Gain, ...]
    others: float
    """Max cores kept busy by other programs while decoding was timed."""


def proxy_gain(
    originals: Sequence[StreamIndex],
    proxies: Sequence[Source],
    rows: Sequence[ProxyRow],
    config: PlanConfig,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> ProxyGain:
    """Return the rates of all strategies before and after; decodes for up to 8 s.

    Args:
        originals: Indexes of the originals.
        proxies: Their proxies, in the same order.
        rows: Records of the proxies, in the same order.
        config: Options of the plan.
        clock: Clock for the timings.

    Raises:
        MediaError: none of the sampled GOPs can be decoded.
        ConfigError: a batch is larger than the data set, or the memory does not hold three
            batches.
    """
    lengths = [
        np.concatenate([index.gop_lengths for index in originals]),
        np.concatenate([_gop_lengths(row.frames, row.gop) for row in rows]),
    ]
    with TemporaryDirectory(prefix="headrace-") as store:
        spread = np.linspace(0, len(rows) - 1, _MOST_TIMED).round().astype(int)
        chosen = np.unique(spread).tolist()
        timed = [
            VideoSet(
                indexes=tuple(originals[row] for row in chosen),
                number=np.arange(len(chosen)),
                skipped=(),
                refused=(),
            ),
            VideoSet.open([proxies[row] for row in chosen], index_store=IndexStore(Path(store))),
        ]
    speeds = [_measure_speed(videos, config, len(rows), clock) for videos in timed]
    before, after = (
        compare(gops, loader_budget(config, gops, speed.workers * videos.codec_bytes), speed)
        for speed, videos, gops in zip(
            (measured.speed for measured in speeds), timed, lengths, strict=True
        )
    )
    return ProxyGain(
        batch_size=config.samples_per_batch,
        memory_budget=str(config.memory_budget),
        size=config.size,
        gains=tuple(
            Gain(
                strategy=name,
                before=round(old.frames_per_second, 1),
                after=round(new.frames_per_second, 1),
            )
            for name, old, new in zip(_EXACT, before, after, strict=False)
        ),
        others=max(speed.others or 0.0 for speed in speeds),
    )


def write_record(folder: Path, totals: ProxyTotals, gain: ProxyGain | None) -> None:
    """Write totals and gains of proxies into their folder, as JSON.

    Raises:
        ConfigError: the record cannot be written.
    """
    record = {"totals": asdict(totals), "gain": None if gain is None else asdict(gain)}
    write_whole(folder / RECORD, json.dumps(record, indent=1) + "\n")


def _measure_speed(videos: VideoSet, config: PlanConfig, count: int, clock: Clock) -> MeasuredSpeed:
    """Return the decode speed, measured on some of `count` videos."""
    open_share = min(1.0, max_open_files(parse_bytes(config.memory_budget)) / count)
    # The timed videos keep the same share of files open as all videos would.
    return measure_speed(
        videos,
        config.size,
        workers=len(available_cores()),
        max_open=max(1, round(len(videos.indexes) * open_share)),
        clock=clock,
    )


def _gop_lengths(frames: int, gop: int) -> NDArray[np.int64]:
    full, rest = divmod(frames, gop)
    return np.array([gop] * full + [rest] * (rest > 0), np.int64)
