"""Records of a whole session: setup, start-up, loader, inside of a step, training, workers."""

from typing import Final, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.profiling.provenance import Record, Scalar, Text
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


class Setup(Record):
    """Options that determine the speed of a session; input of the findings."""

    batch_size: PositiveInt = 1
    """Frames in a step."""
    stride: PositiveInt = 1
    """1 means every frame."""
    device: str = "cpu"
    """Device of the model: `cpu`, `cuda`, `cuda:1`."""
    model: str | None = None
    """Name of the model; None without a model, or with a custom one."""
    smaller_model: str | None = None
    """Model for the same task with less arithmetic, if one is known."""
    has_own_weights: bool = False
    """Whether the weights come from a file of the user: another model would have to be trained."""
    parameters: NonNegativeInt | None = None
    """Parameters of the model."""
    threads: PositiveInt | None = None
    """Threads of one CPU operation of PyTorch."""
    prep_level: str | None = None
    """`simple`, `medium`, `complex`; None with custom preprocessing."""
    draws_video: bool = False
    """Whether an annotated video is written."""


class StartUpPart(Record):
    """One part of the start-up, before the first frame."""

    name: str
    """`imports`, `profiler`, `index`, `model`, `compile`, `warm-up`."""
    seconds: NonNegativeFloat


class Alternative(Record):
    """Measured speed with another setting, in a short run of all stages after the session."""

    option: str
    """Command line text: `--batch-size 8`."""
    options: dict[str, Scalar]
    """Options of a run, by name."""
    ms_per_frame: PositiveFloat
    """Milliseconds per frame of the whole pipeline, after start-up."""
    baseline_ms_per_frame: PositiveFloat
    """The same with the session's setting."""


class DecodingRecord(Record):
    """Decoding of a loader of headrace, from when its look-ahead was filled."""

    amplification: NonNegativeFloat
    """Frames decoded ÷ frames delivered. Above 1, frames are decoded again for later batches."""
    starved_ms: NonNegativeFloat
    """Wait of the loop for decoded frames per batch, without transforms."""
    threads: PositiveInt
    """Threads that decode."""
    is_packed: bool
    """Whether frames wait packed; else as pixels."""
    store: Literal["used", "possible", "impossible"]
    """Frames on a local disk (`spill`); impossible for proxies, pictures, augmented frames, and
    frames that stay on a device."""
    store_amplification: NonNegativeFloat
    """`amplification` of the first epoch with a store, at most, but for its first batch: all frames
    are decoded once."""
    store_bytes: NonNegativeInt | None = None
    """Bytes of all frames in a store; None: packing was not timed."""
    pack_ms: NonNegativeFloat | None = None
    """Time of one core to pack the frames of a batch for a store; None: not timed."""
    unpack_ms: NonNegativeFloat | None = None
    """Time of one core to unpack them; None: not timed."""
    wider: Text | None = None
    """Option with which the loader looks further ahead; None without one."""
    wider_amplification: NonNegativeFloat | None = None
    """Expected `amplification` with it, from the lengths of the GOPs."""


class LoaderRecord(Record):
    """Loader of a training loop.

    Means are over the measured steps: all except the first of each epoch, which includes start-up.
    """

    name: Text
    """Its type: `DataLoader`, `FrameLoader`, `generator`."""
    kind: Literal["DataLoader", "headrace", "other"] = "other"
    """PyTorch's DataLoader; a loader of headrace, which decodes ahead in threads; any iterable."""
    dataset: Text | None = None
    """Type of its dataset; None without one."""
    workers: NonNegativeInt | None = None
    """Worker processes; 0: the loop loads batches itself, on request. None: not reported by the
    loader."""
    prefetch_factor: PositiveInt | None = None
    """Max batches that a worker may be ahead; None without workers."""
    has_persistent_workers: bool = False
    """Whether its workers persist between epochs."""
    epochs: NonNegativeInt = 0
    """Iterations with at least one batch."""
    first_steps: tuple[NonNegativeInt, ...] = ()
    """First step of each epoch; not measured."""
    start_seconds: tuple[NonNegativeFloat, ...] = ()
    """Time from the start of each epoch to its first batch."""
    waits_of: Literal["loop", "device"] = "loop"
    """Recorded waits: the loop's in `next`, or the idle time of the GPU, which works on while the
    loop waits."""
    loop_cpu_ms: NonNegativeFloat | None = None
    """CPU time of the loop's process per step, without loading the batch."""
    thread_cpu_ms: NonNegativeFloat | None = None
    """CPU time of the loop's own thread per step, after its batch has come."""
    batch_cpu_ms: NonNegativeFloat | None = None
    """CPU time of loading a batch, in any process; None: not recorded."""
    late_share: Share | None = None
    """Share of the requests whose batch was not ready; None: not recorded. Near 1: the loader is
    slower. Near 0: the loop is slower."""
    handover_ms: NonNegativeFloat | None = None
    """Time from ready to received, for batches that the loop waited for; None: no such batch, no
    workers, or not recorded."""
    handover_wait_ms: NonNegativeFloat | None = None
    """Part of the wait for a batch in which the batch was ready and in transfer."""
    batch_bytes: NonNegativeInt | None = None
    """Bytes of the tensors of a batch; None without tensors."""
    has_float32: bool = False
    """Whether more than half of these bytes are float32."""
    is_cut: bool = False
    """Whether only the first steps were recorded."""
    decoding: DecodingRecord | None = None
    """None for other loaders, and until the look-ahead is filled."""
    inside: InsideStep | None = None
    """Inside of the steps; None without measured steps, and in records of older versions."""


class Accuracy(Record):
    """Accuracy of the head on frames of held-out videos."""

    frames: PositiveInt
    """Frames evaluated."""
    right: NonNegativeInt
    """Frames whose top class is their label."""
    most_frequent: NonNegativeInt
    """Frames of the most frequent class: the number right if it were always predicted."""


class TrainingRecord(Record):
    """Result of a training."""

    classes: tuple[Text, ...]
    is_dummy: bool = False
    """Whether labels were random; the head is then meaningless."""
    videos: NonNegativeInt
    """Videos in the training set."""
    frames: NonNegativeInt
    """Frames of an epoch."""
    held_out_videos: NonNegativeInt = 0
    """Videos in the validation set."""
    trained_parameters: NonNegativeInt
    """Trained parameters among `Setup.parameters`."""
    accuracy: Accuracy | None = None
    not_measured: Text | None = None
    """Why there is no accuracy, and the fix."""
    head: Text | None = None
    """File of the head, relative to the folder; None: not saved."""


class Usage(Record):
    """CPU time and peak memory of a run."""

    cpu_seconds: NonNegativeFloat
    """CPU time of all its threads and processes during the run."""
    peak_memory_bytes: NonNegativeInt | None = None
    """Peak main memory of its process, imports and warm-up included; None: unknown."""
    peak_gpu_bytes: NonNegativeInt | None = None
    """Peak GPU memory of its tensors; None without a GPU."""


class WorkerRecord(Record):
    """One process of an extraction. Seconds are wall clock."""

    name: str
    steps: NonNegativeInt
    """Finished steps."""
    frames: NonNegativeInt
    """Frames in these steps: images, or samples with a feature."""
    busy_seconds: NonNegativeFloat
    """Time in the parts of its work, summed over the steps."""
    queue_seconds: NonNegativeFloat = 0.0
    """Time that decoded samples waited for a full batch, summed over the chunks; decoding continues
    meanwhile."""
    span_seconds: NonNegativeFloat
    """From the start of its first step to the end of its last."""

    @property
    def throughput(self) -> float:
        """Frames per second of `span_seconds`; 0 if it is 0."""
        return self.frames / self.span_seconds if self.span_seconds else 0.0
