"""Records of the inside of a training step: its parts, its lines and the memory that grows."""

from typing import Final, Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.profiling.provenance import Record, Share, Text

MAX_PLACES: Final = 5
"""Max lines of code recorded for the steps, and for the waits for a batch."""


class StepPart(Record):
    """One part of a step. Times are milliseconds, means over all measured steps."""

    name: Text
    """Kind of work: `forward`, `backward`, `optimizer`, `rest` and others."""
    steps: NonNegativeInt
    """Measured steps that have the part."""
    ms: NonNegativeFloat
    """Wall-clock time, without parts inside it."""
    cpu_ms: NonNegativeFloat
    """CPU time of the loop's thread; other threads and devices are not included."""
    device_ms: NonNegativeFloat | None = None
    """Time of the CUDA stream from the start to the end of the part; None without a GPU."""
    gil_wait_ms: NonNegativeFloat | None = None
    """Wait of the loop's thread for the GIL, estimated from samples; None: not known."""


class StepPlace(Record):
    """A line of the user's code, with its share of the samples of the loop's thread."""

    location: Text
    """`train.py:42`."""
    function: Text
    part: Text
    """Part of the step; `loading`: the wait for a batch."""
    in_optimizer: bool = False
    """Whether the line is in the step of the user's own optimizer."""
    share: Share
    """Share of the samples of the steps; of `loading`, share of the samples of the waits."""


class MemoryGrowth(Record):
    """Memory that grows with the steps."""

    where: Literal["host", "device"]
    """`host`: main memory of the process; `device`: memory of tensors on the GPU."""
    step_bytes: NonNegativeFloat
    """Growth per step, a mean from the first to the last of these readings."""
    first_bytes: NonNegativeInt
    """Memory after the first third of the readings."""
    last_bytes: NonNegativeInt
    """Memory at the last reading."""
    first_step: NonNegativeInt | None = None
    """Step of `first_bytes`; None in older records."""
    last_step: NonNegativeInt | None = None
    """Step of `last_bytes`; None in older records."""


class KeptTensors(Record):
    """Tensors of one kind that were added after growth was first seen (`InsideStep.kept_since`)."""

    shape: tuple[NonNegativeInt, ...]
    dtype: Text
    device: Text
    made_by: Text | None
    """Operation whose autograd graph the tensors keep; None: no graph."""
    tensors: NonNegativeInt
    """Number of added tensors."""


class InsideStep(Record):
    """Parts, lines and memory of the measured steps of a loop: all but the first of each epoch."""

    parts: tuple[StepPart, ...]
    """The parts add up to the step without its wait for data."""
    samples: NonNegativeInt = 0
    """Samples of the loop's thread during steps."""
    loading_samples: NonNegativeInt = 0
    """Samples of the loop's thread during waits for a batch."""
    places: tuple[StepPlace, ...] = ()
    """Costliest lines of the steps."""
    loading_places: tuple[StepPlace, ...] = ()
    """Costliest lines of the waits for a batch; without workers, the loading itself."""
    growth: tuple[MemoryGrowth, ...] = ()
    """Growth of main memory and of GPU memory; empty: none."""
    kept: tuple[KeptTensors, ...] | None = None
    """Kinds with at least one added tensor per two steps, most bytes first; None: not counted."""
    kept_since: NonNegativeInt | None = None
    """Step at which growth was first seen; None: not counted, or an older record."""
