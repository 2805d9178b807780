"""headrace: `read_frames`, the loaders with what they take from the budget, and its live run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import headrace
from benchmarks.adapters import Chunk, Cost, RandomAccess

if TYPE_CHECKING:  # an earlier headrace, that a worker may hold this one against, has it elsewhere
    from benchmarks.live.recovering import Stream, Way
    from headrace import FrameLoader

PACKAGES = ("headrace", "av", "torch")


class Reading:
    """The batches of `read_frames` as chunks."""

    def __init__(self, reader: "headrace.FrameReader") -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[Chunk]:
        for batch in self._reader:
            yield Chunk(batch.video, int(batch.index[0]), batch.frames)

    @property
    def decoded_frames(self) -> int:
        """Frames that the codec gave so far."""
        return self._reader.counters.frames_decoded


def every_frame(paths: Sequence[Path], size: tuple[int, int], workers: int) -> Reading:
    """Batches of the size it chooses, one video after the other."""
    return Reading(headrace.read_frames(paths, size=size, workers=workers))


class Batches:
    """The batches of a loader, checked to be what was asked for."""

    def __init__(self, task: RandomAccess) -> None:
        self._task = task
        self._loader = _loader(task)
        self.warm_up = self._loader.lookahead

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames of each batch."""
        import torch

        requests = self._task.requests()
        with self._loader as loader:
            while True:
                for batch in loader:
                    video = batch.video.reshape(-1, *[1] * (batch.index.ndim - 1))
                    delivered = torch.stack([video.expand_as(batch.index), batch.index], -1)
                    assert (next(requests) == delivered.reshape(-1, 2).numpy()).all()
                    frames = batch.frames.movedim(-3, -1).numpy()
                    yield frames.reshape(-1, *frames.shape[-3:])

    def cost(self) -> Cost:
        """Return the loader's own counts."""
        found = self._loader.statistics
        return Cost(found.frames_decoded, found.seeks, found.opens)


def random_access(task: RandomAccess) -> Batches:
    """Look as far ahead as the budget allows, or as `lookahead` says."""
    return Batches(task)


def _loader(task: RandomAccess) -> "FrameLoader":
    options: dict[str, Any] = {
        "batch_size": task.batch_size,
        "size": task.size,
        "workers": task.workers,
        "memory_budget": task.memory_budget,
        "hold": task.hold,
        "lookahead": task.lookahead,
    }
    if task.clip is None:
        return headrace.FrameLoader(task.paths, sampling=task.sampling, **options)
    return headrace.ClipLoader(task.paths, clips=task.sampling, **options)


def show(stream: "Stream") -> dict[str, Any]:
    """Show the stream until it is over, with defaults; return what became of all frames."""
    from headrace.live.address import addresses_of
    from headrace.live.open import live_source
    from headrace.live.overload import Overload
    from headrace.runs.live.flow import LiveFlow, LivePlan
    from headrace.sizes import parse_seconds

    limit = None if stream.max_staleness is None else parse_seconds(stream.max_staleness)
    [address] = addresses_of([stream.url])
    plan = LivePlan(
        sources=[live_source(address)],
        engine=stream.net.engine(),
        overload=Overload.chosen("auto", is_live=True, max_staleness_seconds=limit),
        max_seconds=(stream.until_ns - perf_counter_ns()) / 1e9,
    )
    with LiveFlow(plan, on_event=lambda event: stream.note(event.kind)) as flow:
        for item in flow:
            for view in item.value.gathered.views:
                stream.show(view[-1].pixels)
    found = flow.conserved()
    return {"arrived": found.arrived, "delivered": found.delivered}


LIVE: Mapping[str, "Way"] = {"headrace": show}
