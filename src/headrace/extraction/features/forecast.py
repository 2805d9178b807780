"""How many features, how large and how long, from a few that are computed and thrown away."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import numpy as np

from headrace.cache.cache_url import NONE
from headrace.errors import HeadraceError
from headrace.extraction.features.chunks import ChunkSpec
from headrace.extraction.features.job import FeatureJob
from headrace.extraction.features.plan import FeaturePlan, sample_bytes
from headrace.extraction.features.told import told_of
from headrace.extraction.ledger import Ledger
from headrace.runtime.child import Json
from headrace.runtime.workers import work_through

_PIECES: Final = 4
"""Chunks of which the first samples are computed."""
_SAMPLES: Final = 8
"""Of each."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What an extraction would come to."""

    videos: int
    samples: int
    """Features, damage aside: exact."""
    chunks: int
    done: int
    """Chunks that lie in the folder already."""
    cached: int
    """Of the others, chunks that are in the cache."""
    missing: int
    """Samples of what is left then."""
    shape: tuple[int, ...]
    """Of one feature."""
    dtype: str
    num_bytes: int
    """Of all features, before they are compressed: exact."""
    tried: int
    """Samples that were computed to estimate the time."""
    seconds: float | None
    """For the missing, by what those took, shared out over the workers; None where none is
    missing, or none could be computed."""
    workers: int
    failures: ClassVar[tuple[str, ...]] = ()
    """It is the run that says what fails."""


def forecast(job: FeatureJob) -> Forecast:
    """Return what would come; computes up to 32 samples, in a process of their own.

    Cost: as a run, of loading the model; reads what the cache has.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    extraction, options, plan = job.extraction, job.extraction.options, job.extraction.plan
    done = job.settle(Ledger(options.out), {}).done
    undone = list(plan.without(done))
    found = {result.chunk.name for result in job.lookup().found(undone)}
    missing = [chunk for chunk in undone if chunk.name not in found]
    left = sum(chunk.samples for chunk in missing)
    tried, spent_ms = _tried(job, missing) if missing else (0, 0.0)
    return Forecast(
        videos=len({chunk.video for chunk in plan.chunks}),
        samples=plan.samples,
        chunks=len(plan.chunks),
        done=len(done),
        cached=len(found),
        missing=left,
        shape=plan.facts.shape,
        dtype=options.numerics.dtype,
        num_bytes=plan.samples * sample_bytes(options, plan.facts),
        tried=tried,
        seconds=spent_ms / tried * left / extraction.workers / 1e3 if tried else None,
        workers=extraction.workers,
    )


def _tried(job: FeatureJob, missing: list[ChunkSpec]) -> tuple[int, float]:
    """Return how many samples were computed, and the milliseconds of work they took."""
    tried, spent_ms = 0, 0.0

    def hear(worker: str, chunk: str, said: Json) -> None:
        nonlocal tried, spent_ms
        match said:
            case {"step": {"frames": int(frames), "work_ms": dict(work)}}:
                tried += frames
                spent_ms += sum(_number(each) for each in work.values())

    plan = job.extraction.plan
    with TemporaryDirectory(prefix="headrace-") as folder:
        ledger = Ledger(Path(folder) / "out")
        with ledger.held(plan.request), ledger.telling(NONE):
            work = job.extraction.work(ledger, 1, job.told)
            pieces = {piece.name: told_of(piece, None) for piece in _pieces(plan, missing)}
            with suppress(HeadraceError):
                if work_through(work, pieces, on_said=hear).is_interrupted:
                    raise KeyboardInterrupt
    return tried, spent_ms


def _pieces(plan: FeaturePlan, missing: list[ChunkSpec]) -> list[ChunkSpec]:
    """Return the beginnings of chunks all over the plan."""
    places = np.unique(np.linspace(0, len(missing) - 1, _PIECES).round().astype(int))
    pieces = []
    for chunk in (missing[place] for place in places):
        starts = chunk.of(plan.starts[chunk.video])[:_SAMPLES]
        pieces.append(replace(chunk, stop=int(starts[-1]) + 1, samples=len(starts)))
    return pieces


def _number(value: Any) -> float:
    return float(value)
