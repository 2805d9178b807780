"""What a session records once: how it was set up, its loader, its training, its workers."""

from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.profiling.provenance import Record, Scalar, Text
from headrace.profiling.stage_records import Share


class Setup(Record):
    """The options that set the pace of a session, as values that findings reason about."""

    batch_size: PositiveInt = 1
    """Frames in a step."""
    stride: PositiveInt = 1
    """1 means every frame."""
    device: str = "cpu"
    """Where the model runs: `cpu`, `cuda`, `cuda:1`."""
    model: str | None = None
    """Its name; None where there is none, or it is the user's own."""
    smaller_model: str | None = None
    """A model for the same task with less arithmetic, if one is known."""
    parameters: NonNegativeInt | None = None
    """Weights and biases of the model."""
    threads: PositiveInt | None = None
    """Threads of one operation of PyTorch on the CPU."""
    prep_level: str | None = None
    """`simple`, `medium`, `complex`; None where preprocessing is the user's own."""
    draws_video: bool = False
    """Whether an annotated video is written."""


class StartUpPart(Record):
    """One thing that was done before the first frame."""

    name: str
    """`imports`, `profiler`, `index`, `model`, `compile`, `warm-up`."""
    seconds: NonNegativeFloat


class Alternative(Record):
    """What another setting was measured to bring on this machine, in a moment after the session.

    All stages ran, as they did in the session.
    """

    option: str
    """As typed on the command line: `--batch-size 8`."""
    options: dict[str, Scalar]
    """The options of a run that make it, by their names."""
    ms_per_frame: PositiveFloat
    """Of the whole, once frames flowed."""
    baseline_ms_per_frame: PositiveFloat
    """The same with the session's own setting, measured in the same way."""


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


class Accuracy(Record):
    """How often the head was right on frames of videos that it was not trained on."""

    frames: PositiveInt
    """Frames that were looked at."""
    right: NonNegativeInt
    """Frames whose likeliest class was their label."""
    most_frequent: NonNegativeInt
    """Frames of the class that most of them belong to: naming it always would be right so often."""


class TrainingRecord(Record):
    """What was learnt."""

    classes: tuple[Text, ...]
    is_dummy: bool = False
    """Whether labels were drawn at random; the head then means nothing."""
    videos: NonNegativeInt
    """Videos that were trained on."""
    frames: NonNegativeInt
    """Frames of an epoch."""
    held_out_videos: NonNegativeInt = 0
    """Videos that were kept for the accuracy."""
    trained_parameters: NonNegativeInt
    """Weights that moved, of `Setup.parameters`."""
    accuracy: Accuracy | None = None
    not_measured: Text | None = None
    """Why there is no accuracy, and what to do."""
    head: Text | None = None
    """The file of the head, relative to the folder; None where none was saved."""


class WorkerRecord(Record):
    """One process that extracts. Seconds are wall clock."""

    name: str
    steps: NonNegativeInt
    """That it finished."""
    frames: NonNegativeInt
    """In them: pictures, or samples that a feature was computed for."""
    busy_seconds: NonNegativeFloat
    """In the parts of its work, all steps added up."""
    queue_seconds: NonNegativeFloat = 0.0
    """That decoded samples waited until a batch was full, chunks added up; no time of the worker
    itself, which decodes on meanwhile."""
    span_seconds: NonNegativeFloat
    """From the beginning of its first step until the end of its last."""

    @property
    def throughput(self) -> float:
        """Frames per second of `span_seconds`; 0 where that is no time."""
        return self.frames / self.span_seconds if self.span_seconds else 0.0
