"""One way to random frames in its own process: a request on stdin, one line of JSON as the answer.

{"way": "torchcodec", "paths": [...], "size": [256, 256], "workers": 2, "batch_size": 128,
 "clip": null, "memory_budget": "1GiB", "hold": "rgb", "seconds": 8, "pictures": null}
"""

import json
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, cast

import numpy as np
import psutil

from benchmarks.equality import shrink
from benchmarks.random_access.way import Delivery, Requests, Task, Way
from benchmarks.worker import keep_to_cores, machine_seconds, peak_rss_bytes, versions
from headrace import open_index
from headrace.sampling.clips import RandomClips
from headrace.sampling.frames import Uniform
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler


def main() -> None:
    """Time the way, or keep its first pictures where the request names a file for them."""
    asked = json.load(sys.stdin)
    pictures, seconds = asked.pop("pictures"), asked.pop("seconds")
    way = cast(Way, import_module(f"benchmarks.random_access.{asked.pop('way')}"))
    task = task_of(**asked, sampling=getattr(way, "SAMPLING", None))
    keep_to_cores(task.workers)
    rss_before = psutil.Process().memory_info().rss
    delivery = way.deliver(task)
    if pictures:
        first = zip(delivery, task.requests(), range(2), strict=False)
        found = [(shrink(frames), requests) for frames, requests, _ in first]
        np.savez(pictures, *(array for pair in found for array in pair))
        answer: dict[str, Any] = {}
    else:
        answer = _time(delivery, seconds)
        peak = peak_rss_bytes()
        answer |= {"memory_bytes": peak - rss_before, "peak_rss_bytes": peak}
    print(json.dumps(answer | {"versions": versions(way.PACKAGES)}), flush=True)


def task_of(
    *,
    paths: list[str],
    size: tuple[int, int],
    workers: int,
    batch_size: int,
    clip: tuple[int, int] | None,
    memory_budget: str,
    hold: Literal["rgb", "yuv420"],
    sampling: Sampler | None = None,
) -> Task:
    """Return the task: uniform frames, or clips, where the way has no sampling of its own."""
    files = [Path(path) for path in paths]
    if sampling is None:
        sampling = Uniform()
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


def _requests(paths: list[Path], batch_size: int, sampling: Sampler) -> Iterator[Requests]:
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
    warm_frames = len(next(batches))
    while warm_frames < delivery.warm_up:
        warm_frames += len(next(batches))
    frames, cost = 0, delivery.cost()
    cpu, others, began = _cpu_seconds(), machine_seconds(), perf_counter()
    while (wall := perf_counter() - began) < seconds or frames < delivery.warm_up:
        frames += len(next(batches))
    cpu = _cpu_seconds() - cpu
    others = max(0.0, machine_seconds() - others - cpu)
    after = delivery.cost()
    spent = {
        name: None if then is None or now is None else now - then
        for name, now, then in zip(after._fields, after, cost, strict=True)
    }
    return {
        "frames": frames,
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "others_cpu_seconds": others,
        "warm_up_frames": warm_frames,
        **spent,
    }


def _cpu_seconds() -> float:
    """CPU time of this process and of its children, those that live included."""
    me = psutil.Process()
    times = [each.cpu_times() for each in (me, *me.children(recursive=True))]
    ended = me.cpu_times()
    alive = sum(each.user + each.system for each in times)
    return float(alive + ended.children_user + ended.children_system)


if __name__ == "__main__":
    main()
