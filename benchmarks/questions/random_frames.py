"""How fast does a way deliver random frames, or clips, once it is in a steady state?"""

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import psutil

from benchmarks.equality import shrink
from benchmarks.random_access.way import Delivery, Requests, Task, Way
from benchmarks.resources import Meter, peak_rss_bytes, versions
from headrace import open_index
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import Uniform
from headrace.sampling.population import Population

if TYPE_CHECKING:
    from headrace.sampling.sampler import Sampler

PROVED = 2
"""Batches whose frames are compared."""


def answer(*, way: str, seconds: float, pictures: str | None, **asked: Any) -> dict[str, Any]:
    """Time a module of `benchmarks.random_access`, or keep its first frames in `pictures`.

    The rest of what is asked makes the task, as `task_of` says.
    """
    module = cast(Way, import_module(f"benchmarks.random_access.{way}"))
    task = task_of(**asked, sampling=getattr(module, "SAMPLING", None))
    rss_before = psutil.Process().memory_info().rss
    delivery = module.deliver(task)
    if pictures:
        first = list(zip(delivery, task.requests(), range(PROVED), strict=False))
        np.savez(
            pictures,
            requests=np.concatenate([requests for _, requests, _ in first]),
            pictures=np.concatenate([shrink(frames) for frames, _, _ in first]),
        )
        return {"versions": versions(module.PACKAGES)}
    found = _time(delivery, seconds)
    peak = peak_rss_bytes()
    return {**found, "memory_bytes": peak - rss_before, "peak_rss_bytes": peak}


def task_of(
    *,
    paths: list[str],
    size: tuple[int, int],
    workers: int,
    batch_size: int,
    clip: tuple[int, int] | None,
    memory_budget: str = "1GiB",
    hold: Literal["rgb", "yuv420"] = "rgb",
    sampling: "Sampler | None" = None,
    seed: int = 0,
) -> Task:
    """Return the task: uniform frames, or clips, where the way has no sampling of its own.

    `seed` makes another order of frames.
    """
    files = [Path(path) for path in paths]
    if sampling is None:
        sampling = Uniform(seed=seed)
        if clip is not None:
            sampling = RandomClips(num_frames=clip[0], stride=clip[1], each_once="starts")
    return Task(
        paths=files,
        size=(size[0], size[1]),
        workers=workers,
        batch_size=batch_size,
        clip=None if clip is None else (clip[0], clip[1]),
        memory_budget=memory_budget,
        hold=hold,
        sampling=sampling,
        requests=partial(_requests, files, batch_size, sampling),
    )


def _requests(paths: list[Path], batch_size: int, sampling: "Sampler") -> Iterator[Requests]:
    population = Population.of([open_index(path).gop_lengths for path in paths])
    for epoch in count():
        order = sampling.order(population, epoch)
        for start in range(0, len(order), batch_size):
            frames = order[start : start + batch_size].ravel()
            yield np.stack(population.locate(frames), axis=1)


def _time(delivery: Delivery, seconds: float) -> dict[str, Any]:
    """Time whole batches for at least `seconds`, after the warm-up the way asks for.

    Also for at least as many frames as the warm-up: decoding comes in waves as long as the
    look-ahead, and every repeat begins at the same place of them.
    """
    batches = iter(delivery)
    warm_up_frames = len(next(batches))
    while warm_up_frames < delivery.warm_up:
        warm_up_frames += len(next(batches))
    frames, before, meter = 0, delivery.cost(), Meter()
    while meter.wall_seconds < seconds or frames < delivery.warm_up:
        frames += len(next(batches))
    times, after = meter.read(), delivery.cost()
    spent = {
        name: None if then is None or now is None else now - then
        for name, now, then in zip(after._fields, after, before, strict=True)
    }
    return {"frames": frames, **times, "warm_up_frames": warm_up_frames, **spent}
