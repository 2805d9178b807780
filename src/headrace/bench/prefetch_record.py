"""Configuration, record and rows of `bench prefetch`."""

from dataclasses import dataclass
from functools import cached_property
from statistics import median, pstdev
from typing import Annotated, Final

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.bench.benchmark import BenchmarkRecord
from headrace.bench.config import BenchmarkConfig
from headrace.config_fields import FrameSize, Option
from headrace.measuring.interleaved import Repetition, RepetitionRow
from headrace.runtime.distribution import Distribution
from headrace.sampling.clip_shape import Boundary

DEFAULT_FACTOR: Final = 2
"""Default prefetch_factor of a DataLoader."""


@dataclass(frozen=True, kw_only=True)
class PrefetchConfig(BenchmarkConfig):
    """Options of `bench prefetch`."""

    prefetch_factor: Annotated[
        tuple[int, ...], Option("Batches that each worker makes ahead.", least=1)
    ] = (1, 2, 4, 8)
    workers: Annotated[int, Option("num_workers of the DataLoader.", least=1)] = 1
    step_ms: Annotated[
        float | None,
        Option(
            "How long training on a batch takes; by default as long as loading one.",
            least=0,
            most=60_000,
        ),
    ] = None
    batch_size: Annotated[int, Option("Clips in a batch.", least=1)] = 1
    clip_len: Annotated[int, Option("Frames in a clip.", least=1)] = 16
    stride: Annotated[int, Option("1 means consecutive frames.", least=1)] = 2
    size: FrameSize = (256, 256)
    boundary: Annotated[Boundary, Option("What a video that is shorter than a clip does.")] = "wrap"
    seconds: Annotated[
        float,
        Option("How long a repetition takes, about; 300 batches at most.", above=0, most=3600),
    ] = 5.0
    repeats: Annotated[int, Option("Repetitions of each setting.", least=1)] = 3


@dataclass(frozen=True, kw_only=True)
class PrefetchSetting:
    """Prefetch setting of a DataLoader."""

    prefetch_factor: int
    is_pinned: bool

    def __str__(self) -> str:
        return f"prefetch_factor={self.prefetch_factor}{', pinned' if self.is_pinned else ''}"


class PrefetchRepetition(Repetition):
    """One repetition of one setting. A batch ends with its training step."""

    prefetch_factor: PositiveInt
    is_pinned: bool
    frames: PositiveInt
    """Frames trained on."""
    intervals_ms: tuple[NonNegativeFloat, ...]
    """Milliseconds from the end of one batch to the end of the next."""
    waits_ms: tuple[NonNegativeFloat, ...]
    """Wait for each batch."""
    copies_ms: tuple[NonNegativeFloat, ...] = ()
    """Time each transfer to the GPU blocked the loop; empty without a GPU."""
    memory_bytes: NonNegativeInt
    """Memory of all processes at the last batch; shared memory is counted once."""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds

    @property
    def step_times(self) -> tuple[float, ...]:
        """Milliseconds from batch to batch."""
        return self.intervals_ms


class PrefetchRecord(BenchmarkRecord):
    """Repetitions of all settings."""

    workers: PositiveInt
    batch_frames: PositiveInt
    """Frames of a batch."""
    batch_bytes: PositiveInt
    load_ms: PositiveFloat
    """Mean time to load a batch without a training step."""
    step_ms: NonNegativeFloat
    """Time of a training step."""
    turns: tuple[PrefetchRepetition, ...]


@dataclass(frozen=True, kw_only=True)
class PrefetchRow(RepetitionRow[PrefetchRepetition]):
    """Repetitions of one setting."""

    @property
    def factor(self) -> int:
        """`prefetch_factor`."""
        return self.first.prefetch_factor

    @property
    def is_pinned(self) -> bool:
        """Whether batches were in pinned memory."""
        return self.first.is_pinned

    @property
    def jitter_ms(self) -> float:
        """Standard deviation of the intervals between batches."""
        return self.median(lambda repetition: pstdev(repetition.intervals_ms))

    @cached_property
    def waits(self) -> Distribution:
        """Waits of all repetitions, milliseconds."""
        waits = Distribution.of(
            [ms for repetition in self.repetitions for ms in repetition.waits_ms]
        )
        assert waits is not None
        return waits

    @property
    def copy_ms(self) -> float | None:
        """Median transfer time; None without a GPU."""
        copies = [ms for repetition in self.repetitions for ms in repetition.copies_ms]
        return median(copies) if copies else None


def rows_of(record: PrefetchRecord) -> tuple[PrefetchRow, ...]:
    """Return one row per setting: unpinned first, each ascending."""
    return PrefetchRow.by(
        lambda repetition: (repetition.is_pinned, repetition.prefetch_factor), record.turns
    )
