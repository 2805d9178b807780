"""Records of a session: stages, queues, setup, start-up, loader, training, usage, workers."""

from dataclasses import dataclass
from typing import Final, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headrace.models.compute import Device
from headrace.profiling.provenance import Record, Scalar, Share, Text, record_of
from headrace.profiling.step_records import InsideStep
from headrace.runtime.queue import QueueStatistics
from headrace.runtime.stage import FlowStatistics

Role = Literal["decode", "preprocess", "transfer", "model", "sink"]
"""Kind of work of a stage, independent of its name."""


@dataclass(frozen=True)
class RoleWords:
    """Names of a role in reports."""

    phrase: str
    """Name in a sentence: "bound by ..."."""
    column: str
    """Name in the table of steps: `{column}_latency_ms`."""


ROLES: Final[dict[Role, RoleWords]] = {
    "decode": RoleWords("decoding", "read"),
    "preprocess": RoleWords("preprocessing", "prep"),
    "transfer": RoleWords("the transfer to the device", "transfer"),
    "model": RoleWords("the model", "exec"),
    "sink": RoleWords("drawing and writing", "sink"),
}
"""In the order of the frames."""


class StageRecord(Record):
    """Time of one stage. Seconds are summed over its workers."""

    name: str
    role: Role
    """Several stages may have the same role."""
    workers: PositiveInt
    items: NonNegativeInt
    """Batches finished."""
    busy_seconds: NonNegativeFloat
    """Time at work. The stage is the bottleneck if this is near workers × length of the run."""
    starved_seconds: NonNegativeFloat
    """Wait for input: the stages before are slower."""
    blocked_seconds: NonNegativeFloat
    """Wait for room in the next queue: the stages after are slower."""
    cpu_seconds: NonNegativeFloat | None = None
    """CPU time of its threads, without threads of libraries; None: not measured."""
    core_wait_seconds: NonNegativeFloat | None = None
    """Time in which its threads could run and no core was free; None: not known."""
    dropped: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """Cause → items that the stage dropped."""
    moved_bytes: NonNegativeInt = 0
    """Bytes copied to another device."""
    moved_to: Device | None = None
    """Target device; `cpu`: from a GPU to the host. None for stages without copies, and in older
    records."""


class ItemCounts(Record):
    """Counts of items: arrived = delivered + dropped + in flight."""

    arrived: NonNegativeInt
    delivered: NonNegativeInt
    dropped: NonNegativeInt
    """All dropped items; the stage records have the causes."""
    in_flight: NonNegativeInt
    """Items that were unfinished at the end of the session."""

    @classmethod
    def of(cls, statistics: FlowStatistics) -> Self:
        """Return the record of the counts of the runtime."""
        return record_of(cls, statistics, dropped=sum(statistics.dropped.values()))


class QueueRecord(Record):
    """One bounded queue between two stages."""

    name: str
    feeds: str | None
    """Stage that consumes; None for the queue after the last stage."""
    capacity: PositiveInt
    """Max depth, in batches."""
    puts: NonNegativeInt
    gets: NonNegativeInt
    elapsed_seconds: NonNegativeFloat
    """Time over which `occupancy_mean` is the mean."""
    occupancy_mean: Share
    """Time-weighted share of the capacity in use. Near 1: the stages after are slower."""
    occupancy_max: Share
    starved_seconds: NonNegativeFloat
    """Wait for input, summed over the consumers."""
    blocked_seconds: NonNegativeFloat
    """Wait for room, summed over the producers."""
    wait_ms_p50: NonNegativeFloat | None
    """Median time of a batch in the queue; None without batches."""
    wait_ms_p95: NonNegativeFloat | None

    @classmethod
    def of(cls, statistics: QueueStatistics, *, feeds: str | None) -> Self:
        """Return the record of the queue that the stage `feeds` consumes."""
        wait_ms = statistics.wait_ms
        return record_of(
            cls,
            statistics,
            feeds=feeds,
            occupancy_mean=statistics.mean_occupancy,
            occupancy_max=statistics.max_occupancy,
            wait_ms_p50=wait_ms.p50 if wait_ms else None,
            wait_ms_p95=wait_ms.p95 if wait_ms else None,
        )


class Setup(Record):
    """Options that determine the speed of a session; the findings read them."""

    batch_size: PositiveInt = 1
    """Frames per step."""
    stride: PositiveInt = 1
    """1: every frame."""
    device: str = "cpu"
    """Device of the model: `cpu`, `cuda`, `cuda:1`."""
    model: str | None = None
    """Name of the model; None: no model, or a custom one."""
    smaller_model: str | None = None
    """Model with less arithmetic for the same task; None: not known."""
    has_own_weights: bool = False
    """Whether the weights are from a file of the user; another model would need training."""
    parameters: NonNegativeInt | None = None
    """Number of parameters of the model."""
    threads: PositiveInt | None = None
    """Intra-op threads of PyTorch on the CPU."""
    prep_level: str | None = None
    """`simple`, `medium` or `complex`; None: custom preprocessing."""
    draws_video: bool = False
    """Whether an annotated video is written."""


class StartUpPart(Record):
    """One part of the start-up, before the run."""

    name: str
    """`imports`, `profiler`, `index`, `model`, `compile`, `warm-up`."""
    seconds: NonNegativeFloat


class Alternative(Record):
    """Speed with another setting, measured in a short run of all stages after the session."""

    option: str
    """Setting on the command line: `--batch-size 8`."""
    options: dict[str, Scalar]
    """Setting as options of a run: name → value."""
    ms_per_frame: PositiveFloat
    """Milliseconds per frame of the whole pipeline with this setting, after start-up."""
    baseline_ms_per_frame: PositiveFloat
    """The same with the setting of the session."""


class DecodingRecord(Record):
    """Decoding of a loader of headrace, after its lookahead was filled."""

    amplification: NonNegativeFloat
    """Frames decoded ÷ frames delivered. Above 1, frames are decoded again for later batches."""
    starved_ms: NonNegativeFloat
    """Wait of the loop for decoded frames per batch; transforms are not included."""
    threads: PositiveInt
    """Decoding threads."""
    is_packed: bool
    """Whether decoded frames are kept packed, not as pixels."""
    store: Literal["used", "possible", "impossible"]
    """Store of frames on a local disk (`spill`); impossible for proxies, pictures, augmented frames
    and frames that stay on a device."""
    store_amplification: NonNegativeFloat
    """Upper bound of `amplification` in the first epoch with a store, after the first batch: all
    frames are decoded once."""
    store_bytes: NonNegativeInt | None = None
    """Bytes of all frames in a store; None: packing was not timed."""
    pack_ms: NonNegativeFloat | None = None
    """Time to pack the frames of a batch for a store on one core; None: not timed."""
    unpack_ms: NonNegativeFloat | None = None
    """Time to unpack the frames of a batch on one core; None: not timed."""
    wider: Text | None = None
    """Option that extends the lookahead; None: no such option."""
    wider_amplification: NonNegativeFloat | None = None
    """Expected `amplification` with the option `wider`, from the lengths of the GOPs."""


class LoaderRecord(Record):
    """Loader of a training loop.

    Means are over the measured steps: all except the first of each epoch, which includes start-up.
    """

    name: Text
    """Type of the loader: `DataLoader`, `FrameLoader`, `generator`."""
    kind: Literal["DataLoader", "headrace", "other"] = "other"
    """`DataLoader`: of PyTorch; `headrace`: a loader of headrace, which decodes ahead in threads;
    `other`: any other iterable."""
    dataset: Text | None = None
    """Type of the dataset of a DataLoader; None for other loaders."""
    decoder: Text | None = None
    """Library with which the code of the dataset opens videos: `PyAV`, `OpenCV`. None: not found,
    or an older record."""
    collate: Text | None = None
    """First line of a collate function of the user, `train.py:9`; `default`: that of PyTorch. None:
    not known, or an older record."""
    workers: NonNegativeInt | None = None
    """Worker processes; 0: the loop loads each batch itself, on request; None: not known."""
    prefetch_factor: PositiveInt | None = None
    """Max batches that a worker loads ahead; None without workers."""
    has_persistent_workers: bool = False
    """Whether the workers persist between epochs."""
    epochs: NonNegativeInt = 0
    """Iterations with at least one batch."""
    first_steps: tuple[NonNegativeInt, ...] = ()
    """Indices of the first step of each epoch; these steps are not measured."""
    start_seconds: tuple[NonNegativeFloat, ...] = ()
    """Time from the start of each epoch to its first batch."""
    waits_of: Literal["loop", "device"] = "loop"
    """Kind of the recorded waits: time of the loop in `next`, or idle time of the GPU, which may
    work while the loop waits."""
    loop_cpu_ms: NonNegativeFloat | None = None
    """CPU time of the loop's process per step, without loading the batch."""
    thread_cpu_ms: NonNegativeFloat | None = None
    """CPU time of the loop's thread per step, after the arrival of the batch."""
    wait_cpu_ms: NonNegativeFloat | None = None
    """CPU time of the loop's thread per step, up to the arrival of the batch; None: not known, or
    an older record."""
    batch_cpu_ms: NonNegativeFloat | None = None
    """CPU time to load a batch, in any process; None: not recorded."""
    late_share: Share | None = None
    """Share of the requests whose batch was not ready; None: not recorded. Near 1: the loader is
    slower. Near 0: the loop is slower."""
    handover_ms: NonNegativeFloat | None = None
    """Time from ready to received, over batches that the loop waited for; None: no such batch, no
    workers, or not recorded."""
    handover_wait_ms: NonNegativeFloat | None = None
    """Part of the wait for a batch after the batch was ready; None: no workers, or not recorded."""
    batch_bytes: NonNegativeInt | None = None
    """Bytes of the tensors of a batch; None: no tensors found."""
    has_float32: bool = False
    """Whether more than half of these bytes are float32."""
    is_cut: bool = False
    """Whether only the first steps were recorded."""
    decoding: DecodingRecord | None = None
    """None for other loaders, and before the lookahead is filled."""
    inside: InsideStep | None = None
    """None without measured steps, and in older records."""


class Accuracy(Record):
    """Accuracy of the head on frames of held-out videos."""

    frames: PositiveInt
    """Frames evaluated."""
    right: NonNegativeInt
    """Frames whose predicted class is their label."""
    most_frequent: NonNegativeInt
    """Frames of the most frequent class; a head that always predicts it has as many right."""


class TrainingRecord(Record):
    """Result of a training."""

    classes: tuple[Text, ...]
    is_dummy: bool = False
    """Whether the labels were random; the head is then useless."""
    videos: NonNegativeInt
    """Videos in the training set."""
    frames: NonNegativeInt
    """Frames per epoch."""
    held_out_videos: NonNegativeInt = 0
    """Videos in the validation set."""
    trained_parameters: NonNegativeInt
    """Trained parameters among `Setup.parameters`."""
    accuracy: Accuracy | None = None
    not_measured: Text | None = None
    """Reason why there is no accuracy, and the fix."""
    head: Text | None = None
    """File of the head, relative to the folder; None: not saved."""


class Usage(Record):
    """CPU time and peak memory of a run."""

    cpu_seconds: NonNegativeFloat
    """CPU time of all its threads and processes during the run."""
    peak_memory_bytes: NonNegativeInt | None = None
    """Peak main memory of the process, imports and warm-up included; None: unknown."""
    peak_gpu_bytes: NonNegativeInt | None = None
    """Peak memory of tensors on a GPU; None without a GPU."""


class WorkerRecord(Record):
    """One process of an extraction. Seconds are wall clock."""

    name: str
    steps: NonNegativeInt
    """Finished steps."""
    frames: NonNegativeInt
    """Frames in these steps: images, or samples with a feature."""
    busy_seconds: NonNegativeFloat
    """Time of all parts of the work, summed over the steps."""
    queue_seconds: NonNegativeFloat = 0.0
    """Wait of decoded samples for a full batch, summed over the chunks; decoding continues during
    the wait."""
    span_seconds: NonNegativeFloat
    """Time from the start of the first step to the end of the last step."""

    @property
    def throughput(self) -> float:
        """Frames ÷ `span_seconds`; 0 if `span_seconds` is 0."""
        return self.frames / self.span_seconds if self.span_seconds else 0.0
