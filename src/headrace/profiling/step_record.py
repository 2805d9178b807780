"""Record of the inside of a loop's step: its parts, the costliest lines, memory that grows."""

from typing import Final, Literal

from pydantic import NonNegativeFloat, NonNegativeInt

from headrace.profiling.provenance import Record, Text
from headrace.profiling.stage_records import Share

MAX_PLACES: Final = 5
"""Lines that are recorded of the steps, and of the loading in the loop's process."""


class StepPart(Record):
    """One part of the steps. Times are means over all measured steps, in milliseconds."""

    name: Text
    """`forward`, `backward`, `optimizer`, `rest` and others: what PyTorch was called for."""
    steps: NonNegativeInt
    """Measured steps with it."""
    ms: NonNegativeFloat
    """Wall clock, without parts inside it."""
    cpu_ms: NonNegativeFloat
    """CPU time of the loop's thread: without work of other threads and of devices."""
    device_ms: NonNegativeFloat | None = None
    """Time of the CUDA stream between the two ends of the part; None without a GPU."""
    gil_wait_ms: NonNegativeFloat | None = None
    """Wait of the loop's thread for the GIL, by samples; None: not known."""


class StepPlace(Record):
    """A line of the user's code in which the loop's thread was seen."""

    location: Text
    """`train.py:42`."""
    function: Text
    part: Text
    """Part of the step; `loading`: while a batch was awaited."""
    share: Share
    """Share of the samples of the steps; of `loading`, share of the samples of the waits."""


class MemoryGrowth(Record):
    """Memory that grows with the steps."""

    where: Literal["host", "device"]
    """Main memory of the process, or memory of tensors on the GPU."""
    step_bytes: NonNegativeFloat
    """Growth of a step."""
    first_bytes: NonNegativeInt
    """Memory at the end of a step after a third of the readings."""
    last_bytes: NonNegativeInt


class KeptTensors(Record):
    """Tensors of one kind that were not there when growth was first seen."""

    shape: tuple[NonNegativeInt, ...]
    dtype: Text
    device: Text
    made_by: Text | None
    """Operation whose graph they keep; None: they keep no graph."""
    tensors: NonNegativeInt


class InsideStep(Record):
    """Inside of the measured steps of a loop: all but the first of each epoch."""

    parts: tuple[StepPart, ...]
    """They add up to the step without its wait for data."""
    samples: NonNegativeInt = 0
    """Samples of the loop's thread in steps."""
    loading_samples: NonNegativeInt = 0
    """Samples in waits for a batch."""
    places: tuple[StepPlace, ...] = ()
    """Costliest lines of the steps."""
    loading_places: tuple[StepPlace, ...] = ()
    """Costliest lines of waits for a batch: of loading, where the loop's process loads."""
    growth: tuple[MemoryGrowth, ...] = ()
    kept: tuple[KeptTensors, ...] | None = None
    """One for every second step at least, the most bytes first; None: not looked for."""
