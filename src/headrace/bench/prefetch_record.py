"""What `bench prefetch` is asked and what it measured, as values, and the rows made of it."""

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
"""Of a stock DataLoader."""


@dataclass(frozen=True, kw_only=True)
class PrefetchConfig(BenchmarkConfig):
    """What is measured."""

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
        float, Option("How long a turn takes, about; 300 batches at most.", above=0, most=3600)
    ] = 5.0
    repeats: Annotated[int, Option("Repetitions of each setting.", least=1)] = 3


@dataclass(frozen=True, kw_only=True)
class PrefetchSetting:
    """How a DataLoader makes batches ahead."""

    prefetch_factor: int
    is_pinned: bool

    def __str__(self) -> str:
        return f"prefetch_factor={self.prefetch_factor}{', pinned' if self.is_pinned else ''}"


class PrefetchRepetition(Repetition):
    """One setting, once. A batch is done when the loop was busy with it for its time."""

    prefetch_factor: PositiveInt
    is_pinned: bool
    frames: PositiveInt
    """Done meanwhile."""
    intervals_ms: tuple[NonNegativeFloat, ...]
    """From one batch that is done to the next."""
    waits_ms: tuple[NonNegativeFloat, ...]
    """How long the loop waited for each of them."""
    copies_ms: tuple[NonNegativeFloat, ...] = ()
    """How long handing each to the GPU held up the loop; empty without a GPU."""
    memory_bytes: NonNegativeInt
    """Of all processes when the last batch was there; what they share is counted once."""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds


class PrefetchRecord(BenchmarkRecord):
    """What was measured."""

    workers: PositiveInt
    batch_frames: PositiveInt
    """In a batch."""
    batch_bytes: PositiveInt
    load_ms: PositiveFloat
    """How long loading a batch took with nothing between two of them, the mean."""
    step_ms: NonNegativeFloat
    """How long the loop was busy with each batch."""
    turns: tuple[PrefetchRepetition, ...]


@dataclass(frozen=True, kw_only=True)
class PrefetchRow(RepetitionRow[PrefetchRepetition]):
    """The turns of one setting."""

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
        return self.median(lambda turn: pstdev(turn.intervals_ms))

    @cached_property
    def waits(self) -> Distribution:
        """How long batches of all turns were waited for, in milliseconds."""
        waits = Distribution.of([ms for turn in self.turns for ms in turn.waits_ms])
        assert waits is not None
        return waits

    @property
    def copy_ms(self) -> float | None:
        """None without a GPU."""
        copies = [ms for turn in self.turns for ms in turn.copies_ms]
        return median(copies) if copies else None


def rows_of(record: PrefetchRecord) -> tuple[PrefetchRow, ...]:
    """Return a row for each setting: those without pinned memory first, each ascending."""
    return PrefetchRow.by(lambda turn: (turn.is_pinned, turn.prefetch_factor), record.turns)
