"""What `bench sampling` records: the ways that were compared, in figures, and their turns."""

from typing import Annotated, Final, Literal, get_args

from pydantic import Field, PositiveInt

from headrace.bench.record import ExperimentRecord
from headrace.measuring.steady_state import DeliveryTurn
from headrace.profiling.provenance import Record

Way = Literal["baseline", "dataset", "naive", "look-ahead", "quarter", "permutation", "bursts"]
"""What `--strategies` takes."""
WAYS: Final[tuple[Way, ...]] = get_args(Way)
LADDER: Final[tuple[Way, ...]] = ("naive", "quarter", "look-ahead")
"""Ways that draw the very same frames, in ever more memory: no frame held, a quarter, all of it."""
QUARTER: Final = 4
"""The memory is divided by this to show what less of it does."""


class Strategy(Record):
    """One way, and what it does to gradients; `docs/sampling.md` derives the numbers."""

    name: Way
    bias: float
    """How far the expected gradient may be off, in σ of a frame's gradient."""
    design_effect: float
    """Variance of a batch ÷ that of independent frames."""
    inflation: float
    """The same over ever more batches, as if drawn with replacement: the worst case."""
    why_not: str = ""
    """Why it cannot be run here; empty if it can."""


class SamplingRecord(ExperimentRecord):
    """What was measured."""

    version: Literal[2] = 2
    """1 had sentences in it."""
    videos: PositiveInt
    frames: PositiveInt
    """In all videos."""
    gops: PositiveInt
    batch_size: PositiveInt
    workers: PositiveInt
    memory_budget: PositiveInt
    """Bytes."""
    burst: PositiveInt
    """Frames in a burst."""
    rho: Annotated[float, Field(ge=0, le=1)]
    """Correlation of the gradients of two frames of a burst, as it was taken."""
    compared: PositiveInt
    """Frames that came out equal, bit for bit, from the baseline and from headrace."""
    strategies: tuple[Strategy, ...]
    turns: tuple[DeliveryTurn, ...]
    """As they were timed; strategies take turns, so that none has all the luck."""
