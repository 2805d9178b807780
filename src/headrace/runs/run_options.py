"""Options of a run: input, compute, output, tracing and live flow; checked on creation."""

from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Annotated, Final, Literal

from headrace.config_fields import Option, SourceArgument, check_options
from headrace.decode.decoder_config import DECODE_OPTION, DecoderConfig
from headrace.decode.protocol import OnError
from headrace.errors import ConfigError
from headrace.live.drop_policy import OverloadName
from headrace.models.compute import WEIGHTS_OPTION, Compute, Device, Precision, layer_of
from headrace.models.results import BoxChoice
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.provenance import TRIED, Scalar, plain
from headrace.runs.output_folder import OUT_OPTION
from headrace.runtime.processor_affinity import check_cores
from headrace.sinks.result_rows import RowFormat
from headrace.units import parse_seconds
from headrace.video.image_sequence import RATE_OPTION

PaceName = Literal["auto", "offline", "realtime"]
View = Literal["none", "web", "metrics", "window"]
"""`metrics` is `web` without the page."""
TRACE_STEPS: Final = 20
"""Default steps in a trace: a few megabytes at most."""


@dataclass(frozen=True, kw_only=True)
class TracingOptions:
    """Traces for other tools; off by default, then without cost."""

    nvtx: Annotated[bool, Option("Emit NVTX ranges for nsys profile.", flags=("--nvtx",))] = False
    """Needs the extra `nvtx`."""
    trace: Annotated[
        bool, Option("Write a Perfetto trace of the first steps.", flags=("--trace",))
    ] = False
    """Traced steps are slower."""
    trace_steps: Annotated[
        int | None,
        Option("Steps in the trace, after the first; 20 by default.", least=1, metavar="N"),
    ] = None
    """Traced steps after the profiler's warm-up; None: `TRACE_STEPS`."""
    tensorboard: Annotated[
        Path | None, Option("Folder for TensorBoard logs of each step.", metavar="DIR")
    ] = None
    """One subfolder per run, also with the trace; needs the extra `tensorboard`."""

    def __post_init__(self) -> None:
        if self.trace_steps is not None and not self.trace:
            raise ConfigError(f"trace_steps={self.trace_steps} needs a trace; add --trace")
        check_options(self)

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, as a session records it."""
        steps = (self.trace_steps or TRACE_STEPS) if self.trace else None
        return plain(asdict(self) | {"trace_steps": steps})


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Sources of a run, and options of reading them."""

    sources: Annotated[
        tuple[str, ...],
        SourceArgument(
            "Video file, folder or glob; camera number (0); address (rtsp://, rtsps://, "
            "http(s)://, udp://); test pattern (test://); or list of addresses (cameras.streams). "
            "Sources with frames of one size share batches.",
            is_needed=False,
            metavar="SOURCE",
        ),
    ]
    """Files are read one after the other."""
    rate: Annotated[str | None, RATE_OPTION] = None
    """None: sources are videos."""
    stride: Annotated[int, Option("Process every n-th frame; 1 means all.", least=1)] = 1
    max_steps: Annotated[int | None, Option("Stop after N steps.", least=1, metavar="N")] = None
    """None: until the last video ends."""
    on_error: Annotated[
        OnError,
        Option(
            "At damaged frames: stop, leave them out, or keep FFmpeg's concealment; all are listed."
        ),
    ] = "raise"
    """Skipped and concealed frames are counted and listed."""
    decode: Annotated[str, DECODE_OPTION] = "cpu"
    """See `DecoderConfig.parse`: `cuda`, `torchcodec`, ..."""

    def __post_init__(self) -> None:
        check_options(self)
        DecoderConfig.parse(self.decode)
        if not self.sources:
            raise ConfigError("a run needs a source, got none; give the path of a video")


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """Optional settings of the computation."""

    fit_batch: bool = False
    """Whether the run first measures the best batch size, up to `batch_size`."""
    prep_on_gpu: Annotated[
        bool,
        Option("Preprocess on the GPU, whatever the model's device.", flags=("--prep-on-gpu",)),
    ] = False
    amp: Annotated[
        bool,
        Option("Compute in 16-bit autocast, with less memory.", flags=("--use-amp",)),
    ] = False
    """float16 on a GPU; bfloat16 on the CPU and for a split model."""
    compile: Annotated[
        bool,
        Option("Compile the model with torch.compile before the run.", flags=("--enable-compile",)),
    ] = False
    split_point: Annotated[
        str | None,
        Option(
            "Run the model on the CPU up to this layer, and the rest on the device.",
            metavar="MODEL:LAYER",
        ),
    ] = None
    """`resnet50:layer3` or `layer3`; the layer itself runs on the CPU. None: no split."""
    core_bind: Annotated[
        str | None,
        Option(
            "CPU cores to run on, one thread each.",
            metavar="0-3,6|all",
            check=check_cores,
        ),
    ] = None
    """Cores of the whole process. The default of `threads` is then one per core. None: all cores of
    the process."""


@dataclass(frozen=True, kw_only=True)
class ComputeOptions:
    """Model, device and batches of a run."""

    model_name: Annotated[str, Option("torchvision model; headrace models lists them.")] = (
        "mobilenet_v2"
    )
    """A classification or video model; with detection options, a detection model."""
    weights: Annotated[str, WEIGHTS_OPTION] = "DEFAULT"
    batch_size: Annotated[
        int, Option("Frames or images per step, all of one size.", least=1, metavar="N")
    ] = 16
    """Decoded frames that wait for the model take up to 1 GiB, or four batches if they are larger;
    the stages hold up to ten more batches."""
    prep_level: Annotated[
        PrepLevel, Option("Amount of preprocessing; medium is the model's own.")
    ] = "medium"
    """See headrace.preprocess.levels."""
    device: Annotated[Device, Option("Device of the model.")] = "cpu"
    threads: Annotated[
        int | None, Option("PyTorch threads per operation on the CPU.", least=1, metavar="N")
    ] = None
    """None: PyTorch's default."""
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)

    def __post_init__(self) -> None:
        check_options(self)

    def compute(self) -> Compute:
        """Return device, precision, compilation and split of the model.

        Raises:
            ConfigError: options contradict each other, or the split point names another model.
        """
        execution = self.execution
        split = execution.split_point
        precision: Precision = "float16" if self.device == "cuda" and split is None else "bfloat16"
        return Compute(
            device=self.device,
            precision=precision if execution.amp else "float32",
            compile=execution.compile,
            split_layer=None if split is None else layer_of(split, self.model_name),
        )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Files and sinks of the results."""

    out: Annotated[Path, OUT_OPTION] = Path("headrace_run")
    """Created if missing."""
    video: Annotated[bool, Option("Write an annotated video, or not.")] = True
    """For images, annotated copies; predictions are always written."""
    predictions: Annotated[
        RowFormat, Option("Write predictions as JSON lines or as a Parquet table.")
    ] = "jsonl"
    """A table needs the extra `parquet`."""
    top_k: Annotated[int, Option("Number of classes to list per frame.", least=1)] = 1
    """The likeliest first."""
    sinks: Annotated[
        tuple[str, ...],
        Option(
            "Also pass the results to this class; runs its code; repeatable.",
            flags=("--sink",),
            metavar="MODULE:CLASS",
            is_repeated=True,
        ),
    ] = ()
    """See `headrace.Sink`. Importing a sink's module runs its code."""

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class DetectionOptions:
    """Boxes that a detector keeps, and their files; `coco.json` is always written."""

    choice: BoxChoice = field(default_factory=BoxChoice)
    """Filter of the boxes."""
    parquet: Annotated[bool, Option("Write boxes.parquet next to coco.json, or not.")] = True
    """Needs the extra `parquet`."""
    lines: bool = False
    """Whether to write also JSON lines, readable during the run."""

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, as a session records it."""
        return {
            "threshold": self.choice.threshold,
            "max_boxes": self.choice.max_boxes,
            "classes": ", ".join(self.choice.classes) or "all",
            "parquet": self.parquet,
        }


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """Pace of live sources, and the handling of overload."""

    view: Annotated[
        View,
        Option("Show the run on a web page with metrics, as metrics alone, or in a window."),
    ] = "none"
    pace: Annotated[
        PaceName,
        Option("Read files at full speed (auto, offline) or at their frame rate (realtime)."),
    ] = "auto"
    """Cameras and network sources are always read in real time."""
    overload: Annotated[
        OverloadName,
        Option("Under overload, keep all frames or only the newest; auto: keep-last in real time."),
    ] = "auto"
    """`auto`: `keep-last` in real time, `keep-all` offline."""
    max_staleness: Annotated[
        str | None,
        Option(
            'Limit on latency: drop frames that arrived longer ago, such as "200ms".',
            metavar="SPAN",
            check=parse_seconds,
        ),
    ] = None
    """Stale frames are dropped before each stage; None: frames of any age are kept."""
    queue: Annotated[
        int | None,
        Option("Max queued frames per source.", least=1, metavar="N"),
    ] = None
    """None: 1 with `keep-last`, else 2."""
    wait_for_source: Annotated[
        bool, Option("Wait for a source that cannot be opened yet.", flags=("--wait-for-source",))
    ] = False
    """False: a source that cannot be opened at the start ends the run."""
    max_seconds: Annotated[
        float | None,
        Option("Stop reading after this many seconds, connecting included.", metavar="SECONDS"),
    ] = None
    """None: until the sources end."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.max_seconds is not None and not 0 < self.max_seconds < inf:
            raise ConfigError(
                f"max_seconds must be > 0, got {self.max_seconds}; leave it out for no limit"
            )
        parse_seconds(self.max_staleness or "1s")

    @property
    def max_staleness_seconds(self) -> float | None:
        """`max_staleness` in seconds."""
        return None if self.max_staleness is None else parse_seconds(self.max_staleness)


@dataclass(frozen=True, kw_only=True)
class LiveClipOptions:
    """Clips for a video model; other models accept only the defaults."""

    clip_len: Annotated[
        int | None,
        Option(
            "Frames per clip of a video model; by default the model's own number.",
            least=1,
            metavar="N",
        ),
    ] = None
    clip_stride: Annotated[
        int, Option("Stride of the frames in a clip; 1 means consecutive.", least=1)
    ] = 1
    clip_hop: Annotated[
        int | None,
        Option(
            "Frames from one clip start to the next; by default the span of a clip.",
            least=1,
            metavar="N",
        ),
    ] = None

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """One run of files at full speed, or of live sources."""

    input: InputOptions
    """`on_error` is for files; damaged frames of a stream are always skipped, counted and
    reported."""
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    output: OutputOptions = field(default_factory=OutputOptions)
    detection: DetectionOptions | None = None
    """None: the defaults, which `task.with_task` adds for a detector; other models classify frames
    or clips."""
    marks: TracingOptions = field(default_factory=TracingOptions)
    flow: FlowOptions = field(default_factory=FlowOptions)
    clips: LiveClipOptions = field(default_factory=LiveClipOptions)
    tried: str = ""
    """Advised change that `--apply-advice` made in these options; empty: none."""

    def decoding(self) -> DecoderConfig:
        """Return the decoder; frames stay on its GPU if the GPU also preprocesses them."""
        decoding = DecoderConfig.parse(self.input.decode)
        keeps = decoding.can_keep and decoding.gpu is not None
        return replace(decoding, keeps_on_device=keeps and self.compute.execution.prep_on_gpu)

    def configuration(self, names: tuple[str, ...] | None = None) -> dict[str, Scalar]:
        """Return every option in force, defaults included, as a session records it.

        Args:
            names: Names of live sources, without credentials; None: files at full speed.
        """
        read, compute = asdict(self.input), compute_configuration(self.compute)
        output = asdict(self.output)
        custom_sinks = ", ".join(output.pop("sinks"))
        output |= {"out": str(self.output.out)} | ({"sinks": custom_sinks} if custom_sinks else {})
        paths = read.pop("sources")
        if names is None:
            sources = {"source": ", ".join(paths)}
            read["decode"] = self.decoding().name
        else:
            sources = {"sources": ", ".join(names)}
            del read["decode"]
            read |= asdict(self.flow) | asdict(self.clips)
        if self.detection is not None:
            del output["predictions"], output["top_k"]
        return {
            "model": compute.pop("model_name"),
            **sources,
            **read,
            **compute,
            **output,
            **(self.detection.configuration() if self.detection else {}),
            **self.marks.configuration(),
            **({TRIED: self.tried} if self.tried else {}),
        }


def compute_configuration(compute: ComputeOptions) -> dict[str, Scalar]:
    """Return the compute options, flat, as a session records them."""
    options = asdict(compute)
    execution: dict[str, Scalar] = options.pop("execution")
    return {**options, **execution}
