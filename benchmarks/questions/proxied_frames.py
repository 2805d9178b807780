"""How fast do batches of random frames come from very many files: videos, proxies, JPEG shards?"""

from collections.abc import Iterator
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path
from time import perf_counter
from typing import Any

import av
import numpy as np
from torch.utils.data import DataLoader

from benchmarks.resources import Meter
from headrace import Bursts, FrameLoader, Proxies, Uniform
from headrace.decode.convert import FrameConverter
from headrace.decode.index_store import IndexStore
from headrace.video.shape import FrameShape, Orientation

WORKERS = 2
PROVED = 3
"""Batches whose frames are compared."""


def answer(
    *,
    way: str,
    videos: list[str],
    proxies: str | None,
    shards: list[str],
    store: str,
    size: tuple[int, int],
    batch_size: int,
    memory_budget: str,
    warm_up_seconds: float,
    seconds: float,
) -> dict[str, Any]:
    """Time a way for `seconds`, or with none hold its first frames against a plain decode.

    It is warm when it delivered as many frames as it looks ahead, or after `warm_up_seconds`.
    """
    if way == "webdataset":
        return _timed(_shard_batches(shards, batch_size), 0, warm_up_seconds, seconds, {})
    sources = videos if proxies is None else Proxies(proxies).all(videos)
    began = perf_counter()
    with FrameLoader(
        sources,
        batch_size=batch_size,
        size=(size[0], size[1]),
        memory_budget=memory_budget,
        workers=WORKERS,
        sampling=Bursts(frames_per_burst=8, lanes=batch_size) if way == "bursts" else Uniform(),
        store=IndexStore(Path(store)),
    ) as loader:
        if not seconds:
            return {"wrong": _wrong(loader, Proxies(str(proxies)), videos)}
        opened = {"open_seconds": perf_counter() - began, "lookahead": loader.lookahead}
        batches = (batch.frames for batch in chain.from_iterable(repeat(loader)))
        before = loader.statistics.frames_decoded
        found = _timed(batches, loader.lookahead, warm_up_seconds, seconds, opened)
        decoded = loader.statistics.frames_decoded - before
    # Of all frames, those of the warm-up too.
    share = found["frames"] / (found["frames"] + found["warm_up_frames"])
    return {**found, "decoded": round(decoded * share)}


def _timed(
    batches: Iterator[Any],
    lookahead: int,
    warm_up_seconds: float,
    seconds: float,
    opened: dict[str, Any],
) -> dict[str, Any]:
    began = perf_counter()
    warm = len(next(batches))
    while warm < lookahead and perf_counter() - began < warm_up_seconds:
        warm += len(next(batches))
    frames, meter = 0, Meter()
    while meter.wall_seconds < seconds:
        frames += len(next(batches))
    return {"frames": frames, "warm_up_frames": warm, **meter.read(), **opened}


def _wrong(loader: FrameLoader, proxies: Proxies, videos: list[str]) -> int:
    """Return how many frames of the first batches differ from a plain decode of their proxies."""
    sources = proxies.all(videos)
    shown: dict[int, list[np.ndarray]] = {}
    wrong = 0
    for batch, _ in zip(loader, range(PROVED), strict=False):
        frames = batch.frames.movedim(1, -1).numpy()
        places = zip(batch.video.tolist(), batch.index.tolist(), frames, strict=True)
        for video, index, frame in places:
            if video not in shown:
                size = (frame.shape[0], frame.shape[1])
                shown[video] = _plain(sources[video].proxy, size)
            wrong += not np.array_equal(frame, shown[video][index])
    return wrong


def _plain(path: Path, size: tuple[int, int]) -> list[np.ndarray]:
    converter = FrameConverter(FrameShape(size=size), Orientation(), str(path))
    with av.open(str(path)) as container:
        return [converter.convert(frame, None) for frame in container.decode(video=0)]


def _shard_batches(shards: list[str], batch_size: int) -> Iterator[Any]:
    """WebDataset as its documentation has it: shards in random order, a shuffle buffer, Pillow."""
    webdataset = import_module("webdataset")  # has no types

    dataset = (
        webdataset.WebDataset(shards, resampled=True, shardshuffle=False)
        .shuffle(1000)
        .decode("rgb8")
        .to_tuple("jpg")
        .batched(batch_size)
    )
    return (frames for (frames,) in iter(DataLoader(dataset, batch_size=None, num_workers=WORKERS)))
