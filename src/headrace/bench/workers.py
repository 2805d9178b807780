"""DataLoader workers benchmark: an epoch of clips for each num_workers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import NonNegativeInt, PositiveInt

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, Context, SuiteSpec
from headrace.bench.config import BenchmarkConfig
from headrace.bench.ladder import Saturation
from headrace.config_fields import FrameSize, Option
from headrace.measuring.decode_counts import (
    COLUMNS,
    READING,
    CountedRow,
    EpochRepetition,
    median_column,
    rate_columns,
)
from headrace.measuring.interleaved import interleave
from headrace.profiling.findings.finding import Finding
from headrace.profiling.number_format import counted, percent, seconds
from headrace.report.benchmark_page import Column
from headrace.runtime.processor_affinity import available_cores
from headrace.sampling.clip_shape import Boundary

_BATCHES_PER_WORKER: Final = 4
"""Min batches per worker in an epoch; with fewer, startup dominates."""


@dataclass(frozen=True, kw_only=True)
class WorkersConfig(BenchmarkConfig):
    """Options of `bench workers`."""

    workers: Annotated[
        tuple[int, ...], Option("Values of num_workers; 0 loads in the main process.", least=0)
    ] = (0, 1, 2, 4, 8)
    batch_size: Annotated[int, Option("Clips per batch.", least=1)] = 4
    clip_len: Annotated[int, Option("Frames per clip.", least=1)] = 16
    stride: Annotated[
        int, Option("Stride of the frames in a clip; 1 means consecutive.", least=1)
    ] = 2
    size: FrameSize = (256, 256)
    boundary: Annotated[Boundary, Option("Handling of videos shorter than a clip.")] = "error"
    clips_per_video: Annotated[
        int | None,
        Option("Clips per video and epoch; by default enough for 4 batches per worker.", least=1),
    ] = None
    repeats: Annotated[int, Option("Epochs per number of workers.", least=1)] = 3

    @property
    def times(self) -> int:
        """Clips of each video in an epoch."""
        enough = _BATCHES_PER_WORKER * max(self.workers) * self.batch_size
        return self.clips_per_video or max(1, math.ceil(enough / len(self.videos)))


class Epoch(EpochRepetition):
    """One epoch, from the request of the first batch until the arrival of the last."""

    workers: NonNegativeInt


class WorkersRecord(BenchmarkRecord):
    """Epochs with each number of workers."""

    videos: PositiveInt
    clips: PositiveInt
    """Clips of an epoch; `frames` too."""
    frames: PositiveInt
    epochs: tuple[Epoch, ...]


WorkersRow = CountedRow[Epoch]
"""Epochs with one number of workers."""


def measure_workers(config: WorkersConfig, context: Context) -> WorkersRecord:
    """Time epochs of the same clips, after an uncounted one in this process."""
    from headrace.loaders.datasets import VideoDataset
    from headrace.measuring.loader_adapters import time_epoch

    def take(workers: int) -> Epoch:
        repetition = time_epoch(
            clips, batch_size=config.batch_size, workers=workers, frames=frames, clock=context.clock
        )
        clips.close()
        return Epoch(workers=workers, **repetition.model_dump())

    provenance = context.provenance(config, clips_per_video=config.times)
    with VideoDataset(
        config.videos * config.times,
        config.clip_len,
        config.stride,
        size=config.size,
        boundary=config.boundary,
        index_store=context.store,
    ) as clips:
        clips.set_epoch(0)  # the same clips each time
        frames = len(clips) * config.clip_len
        epochs = interleave(
            config.workers,
            take,
            repeats=config.repeats,
            label=lambda workers: counted(workers, "worker"),
            warm_up=0,
            on_progress=context.on_progress,
        )
    videos, length = len(config.videos), len(clips)
    return WorkersRecord(
        provenance=provenance, videos=videos, clips=length, frames=frames, epochs=epochs
    )


def rows_of(record: WorkersRecord) -> tuple[WorkersRow, ...]:
    """Return one row per number of workers, ascending."""
    return WorkersRow.by(lambda epoch: epoch.workers, record.epochs)


def _saturation(rows: Sequence[WorkersRow]) -> Saturation[WorkersRow]:
    return Saturation(
        rows=rows,
        # Without workers, decoding does not overlap training, even if it is fastest here.
        candidates=tuple(row for row in rows if row.first.workers),
        unit="frames/s",
        label=lambda row: counted(row.first.workers, "worker"),
        setting=lambda row: f"num_workers={row.first.workers}",
        surplus="more only take memory and time to start",
        further="--workers with a larger number",
    )


def _answer(record: WorkersRecord, rows: tuple[WorkersRow, ...]) -> tuple[Finding, ...]:
    saturation, noise = _saturation(rows), record.noise(rows)
    alone = "0 workers are no candidate: they decode while nobody trains, not beside it."
    evidence = [
        *saturation.rule("the fewest workers"),
        *([alone] if saturation.point.first.workers and not rows[0].first.workers else []),
        f"{saturation.label(saturation.point)}: processors busy {percent(saturation.point.cores)} "
        f"of one core, {counted(record.cores, 'core')} usable.",
        *noise.sentences("Epochs with the same number of workers"),
    ]
    return (saturation.finding(noise, evidence),)


def _among_all(videos: tuple[str, ...]) -> WorkersConfig:
    """Return the suite's configuration: up to twice as many workers as cores."""
    max_workers = 2 * len(available_cores())
    workers = tuple(count for count in (0, 1, 2, 4, 8, 16) if count <= max_workers)
    return WorkersConfig(videos=videos, workers=workers, batch_size=2, boundary="wrap", repeats=2)


WORKERS: Final[Benchmark[WorkersConfig, WorkersRecord, WorkersRow]] = Benchmark(
    name="workers",
    summary="Time an epoch of clips for each num_workers of a DataLoader; name where it saturates.",
    config=WorkersConfig,
    record=WorkersRecord,
    measure=measure_workers,
    title=lambda record: (
        f"Frames per second by num_workers: {counted(record.clips, 'clip')} "
        f"of {counted(record.videos, 'video')}"
    ),
    rows=rows_of,
    columns=lambda record: (
        Column("workers", lambda row: str(row.first.workers)),
        *rate_columns("frames/s"),
        median_column("clips/s", lambda epoch: record.clips / epoch.seconds),
        median_column("first batch", lambda epoch: epoch.first_batch_seconds, seconds),
        Column("CPU", lambda row: percent(row.cores)),
        median_column("MB", lambda epoch: epoch.memory_bytes / 1e6),
        *COLUMNS,
    ),
    reading="Medians over the epochs; 0 workers is the training process "
    "itself. Memory is that of all processes when the last batch was there, what they share "
    f"counted once. {READING}",
    answer=_answer,
    charts=lambda record, rows: (
        _saturation(rows).chart(
            lambda row: row.first.workers,
            axis="num_workers",
            name="workers",
            title="Frames per second by number of workers",
            reading="An epoch's frames ÷ its time, starting the workers included; the bars reach "
            "from the slowest epoch to the fastest. The ring is where it saturates: the fewest "
            "workers above the dashed line.",
        ),
    ),
    names_machine=False,
    terms=SuiteSpec(config=_among_all, seconds=50, concerns="loading"),
)
