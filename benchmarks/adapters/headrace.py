"""headrace: `read_frames`, the loaders within a memory budget, and a live run."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import headrace
from benchmarks.adapters import Chunk, Delivery, Frames, RandomAccess

if TYPE_CHECKING:  # workers may import an earlier headrace without these modules
    from benchmarks.live.recovering import Player, Stream

PACKAGES = ("headrace", "av", "torch")


def every_frame(paths: Sequence[Path], size: tuple[int, int], workers: int) -> Delivery:
    """Return batches of headrace's default size, one video after another."""
    reader = headrace.read_frames(paths, size=size, workers=workers)
    return Delivery(
        (Chunk(batch.video, int(batch.index[0]), batch.frames) for batch in reader),
        cost=lambda: {"decoded": reader.counters.frames_decoded},
    )


def random_access(task: RandomAccess) -> Delivery:
    """Return batches of headrace; asserts that each has the requested frames."""
    options: dict[str, Any] = {"batch_size": task.batch_size, "size": task.size}
    options |= {"num_threads": task.workers, **task.options}
    loader: headrace.FrameLoader | headrace.ClipLoader
    if task.clip is None:
        loader = headrace.FrameLoader(task.paths, sampling=task.sampling, **options)
    else:
        loader = headrace.ClipLoader(task.paths, clips=task.sampling, **options)

    def batches() -> Iterator[Frames]:
        import torch

        requests = task.requests()
        with loader:
            for batch in chain.from_iterable(repeat(loader)):
                video = batch.video.reshape(-1, *[1] * (batch.index.ndim - 1))
                delivered = torch.stack([video.expand_as(batch.index), batch.index], -1)
                assert (next(requests) == delivered.reshape(-1, 2).numpy()).all()
                frames = batch.frames.movedim(-3, -1).numpy()
                yield frames.reshape(-1, *frames.shape[-3:])

    return Delivery(batches(), lambda: loader.lookahead, partial(cost, loader))


def cost(loader: "headrace.FrameLoader | headrace.ClipLoader") -> dict[str, int]:
    """Return the decoded frames, seeks and opened files of a loader so far."""
    counts = loader.statistics
    return {"decoded": counts.frames_decoded, "seeks": counts.seeks, "opens": counts.opens}


def show(stream: "Stream") -> None:
    """Show the stream until its end, with default options."""
    from headrace.live.address import parse_addresses
    from headrace.live.drop_policy import DropPolicy
    from headrace.live.realtime_source import live_source
    from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
    from headrace.units import parse_seconds

    limit = None if stream.max_staleness is None else parse_seconds(stream.max_staleness)
    [address] = parse_addresses([stream.url])
    plan = LivePlan(
        sources=[live_source(address)],
        model_runner=stream.engine,
        overload=DropPolicy.from_name("auto", is_live=True, max_staleness_seconds=limit),
        max_seconds=(stream.until_ns - perf_counter_ns()) / 1e9,
    )
    with LivePipeline(plan, on_event=lambda event: stream.note(event.kind)) as pipeline:
        for item in pipeline:
            for view in item.value.views:
                stream.show(view[-1].pixels)


LIVE: Mapping[str, "Player"] = {"headrace": show}
