"""What a training loop took its batches from, and what that cost besides its stages."""

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.profiling.flow import Share
from headrace.profiling.provenance import Record, Text


class LoaderRecord(Record):
    """The loader of a training loop.

    Means are over the measured steps: all but the first one of each epoch, which pays for the
    start.
    """

    name: Text
    """Its type: `DataLoader`, `FrameLoader`, `generator`."""
    kind: Literal["DataLoader", "headrace", "other"] = "other"
    """Whose: PyTorch's, ours, which decode ahead in threads, or anything that can be iterated."""
    dataset: Text | None = None
    """Type of its dataset; None where it has none."""
    workers: NonNegativeInt | None = None
    """Processes that make batches; 0: the loop makes them itself, when it asks. None where the
    loader does not tell."""
    prefetch_factor: PositiveInt | None = None
    """Batches that each worker may be ahead; None without workers."""
    has_persistent_workers: bool = False
    """Whether its workers live on from one epoch to the next."""
    epochs: NonNegativeInt = 0
    """Iterations that gave at least one batch."""
    first_steps: tuple[NonNegativeInt, ...] = ()
    """The first step of each epoch; not measured."""
    start_seconds: tuple[NonNegativeFloat, ...] = ()
    """From asking for an iterator until its first batch was there, for each epoch."""
    waits_of: Literal["loop", "device"] = "loop"
    """Whose waits for data are told: those of the loop in `next`, or those of the GPU, which goes
    on while the loop waits."""
    loop_cpu_ms: NonNegativeFloat | None = None
    """Processor time of the loop's process for a step, what making its batch took left out."""
    batch_cpu_ms: NonNegativeFloat | None = None
    """Processor time that making a batch takes, in whatever process; None where it is not seen."""
    late_share: Share | None = None
    """Of the requests, those whose batch was not made yet; None where it is not seen. Near 1:
    batches come too slowly. Near 0: the loop is the slower side."""
    handover_ms: NonNegativeFloat | None = None
    """From when a batch was made until the loop had it, where the loop waited for it; None where
    it never did, without workers, or where it is not seen."""
    handover_wait_ms: NonNegativeFloat | None = None
    """Of the wait for a batch, the part in which it was made already, and on its way."""
    batch_bytes: NonNegativeInt | None = None
    """Bytes of the tensors of a batch; None where it holds none."""
    has_float32: bool = False
    """Whether most of these bytes are float32."""
    is_cut: bool = False
    """Whether there were more steps than are kept: the first ones are."""
