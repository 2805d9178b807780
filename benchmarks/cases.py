"""Functions of the worker for all libraries, and for headrace at any commit.

A worker with another commit of headrace imports this module, too. So each function imports the
parts of headrace that it needs.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import adapters
from benchmarks.adapters import Delivery, RandomAccess, Requests
from benchmarks.equality import shrink, thumbnails
from benchmarks.worker import Meter, peak_rss_bytes, rss_bytes, steady, versions

if TYPE_CHECKING:
    from headrace.sampling.sampler import Sampler

PROVED = 2
"""Batches whose frames are compared."""
CAMERA_SIZE = (224, 400)
"""A quarter of the height and width of `benchmarks.camera_media`."""


def every_frame(
    *,
    library: str,
    paths: Sequence[str],
    size: tuple[int, int],
    workers: int,
    pictures: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Time every frame of every file, in order; with `pictures`, write thumbnails instead."""
    files, (height, width) = [Path(path) for path in paths], size
    adapter = adapters.adapter(library)

    def every(files: Sequence[Path]) -> Delivery:
        return adapters.every_frame(adapter, files, (height, width), workers, **options)

    if pictures:
        np.savez(pictures, *thumbnails(every(files).batches, len(files)))
        return {"versions": versions(adapter.PACKAGES)}
    for _ in every(files[:workers]).batches:
        pass
    first_seconds: float | None = None
    frames, meter = 0, Meter()
    delivery = every(files)
    for chunk in delivery.batches:
        frames += len(chunk.frames)
        first_seconds = first_seconds or meter.wall_seconds
    figures = {**meter.read(), **delivery.cost(), "peak_rss_bytes": peak_rss_bytes()}
    return {**figures, "first_seconds": first_seconds, "frames": frames}


def random_frames(
    *, library: str, seconds: float, pictures: str | None = None, **parameters: Any
) -> dict[str, Any]:
    """Time random frames or clips in steady state; with `pictures`, write thumbnails instead.

    The other parameters define the task: see `task_of`.
    """
    adapter = adapters.adapter(library)
    task = task_of(**parameters)
    rss_before = rss_bytes()
    delivery = adapters.random_access(adapter, task)
    if pictures:
        first = list(zip(delivery.batches, task.requests(), range(PROVED), strict=False))
        np.savez(
            pictures,
            requests=np.concatenate([requests for _, requests, _ in first]),
            pictures=np.concatenate([shrink(frames) for frames, _, _ in first]),
        )
        return {"versions": versions(adapter.PACKAGES)}
    # Decoding comes in waves as long as the lookahead, so a repeat starts at the same phase as the
    # others and lasts at least one wave.
    repeat = steady(delivery, seconds, least_frames=delivery.lookahead)
    peak = peak_rss_bytes()
    return {**repeat, "memory_bytes": peak - rss_before, "peak_rss_bytes": peak}


def task_of(
    *,
    paths: Sequence[str],
    size: Sequence[int],
    workers: int,
    batch_size: int,
    clip: Sequence[int] | None = None,
    frames_per_burst: int | None = None,
    seed: int = 0,
    **options: Any,
) -> RandomAccess:
    """Return the task: uniform frames, bursts or clips; `seed` sets the order of uniform frames."""
    from headrace.sampling.clip_samplers import RandomClips
    from headrace.sampling.frame_samplers import UniformFrames

    files = [Path(path) for path in paths]
    sampling: Sampler = UniformFrames(seed=seed)
    if frames_per_burst is not None:
        from headrace import Bursts

        sampling = Bursts(frames_per_burst=frames_per_burst, lanes=batch_size)
    elif clip is not None:
        sampling = RandomClips(num_frames=clip[0], stride=clip[1], each_once="starts")
    return RandomAccess(
        paths=files,
        size=(size[0], size[1]),
        workers=workers,
        batch_size=batch_size,
        clip=None if clip is None else (clip[0], clip[1]),
        sampling=sampling,
        requests=partial(_requests, files, batch_size, sampling),
        options=options,
    )


def scan_files(
    *, paths: Sequence[str], way: str = "one", workers: int = 1, **_: Any
) -> dict[str, Any]:
    """Time the scan of new files, after two untimed ones; a file counts as a frame.

    `way`: `one` after another, on `threads`, or as a `loader` opens them.
    """
    from headrace import StreamIndex

    for path in paths[:2]:
        StreamIndex.scan(path)
    with TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        meter = Meter()
        if way == "loader":
            from headrace import IndexStore
            from headrace.loaders.video_set import VideoSet

            VideoSet.open(paths, index_store=IndexStore(Path(folder)))
        else:
            list((pool.map if way == "threads" else map)(StreamIndex.scan, paths))
        return {"frames": len(paths), **meter.read()}


def camera_streams(*, paths: Sequence[str], workers: int, **_: Any) -> dict[str, Any]:
    """Time one epoch of the cameras of an index file, after two untimed batches."""
    from headrace import CameraLoader

    options: Mapping[str, Any] = {"group_num": 2, "size": CAMERA_SIZE, "num_threads": workers}
    with CameraLoader(paths[0], **options) as loader:
        for step, _batch in enumerate(loader):
            if step == 1:
                break
    meter, pictures = Meter(), 0
    with CameraLoader(paths[0], **options) as loader:
        for batch in loader:
            pictures += int(batch.valid.sum())
    return {"frames": pictures, **meter.read()}


def _requests(paths: list[Path], batch_size: int, sampling: "Sampler") -> Iterator[Requests]:
    from headrace import open_index
    from headrace.sampling.population import Population

    population = Population.of([open_index(path).gop_lengths for path in paths])
    for epoch in numbers():
        order = sampling.order(population, epoch)
        for start in range(0, len(order), batch_size):
            frames = order[start : start + batch_size].ravel()
            yield np.stack(population.locate(frames), axis=1)
