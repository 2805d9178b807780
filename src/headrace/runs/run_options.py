"""What to run, on what, with what, and where results go: a few values, checked when made."""

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
from headrace.profiling.provenance import Scalar
from headrace.runs.outputs import OUT_OPTION
from headrace.runtime.affinity import check_cores
from headrace.sinks.predictions import PredictionFormat
from headrace.units import parse_seconds
from headrace.video.image_sequence import RATE_OPTION

PaceName = Literal["auto", "offline", "realtime"]
View = Literal["none", "web", "metrics", "window"]
"""`metrics` is `web` without its page: for programs only."""

TRACE_STEPS: Final = 20
"""Steps in a trace: some megabytes at most, and a look at each kind of step."""


@dataclass(frozen=True, kw_only=True)
class MarkOptions:
    """What marks a run leaves for other tools; none by default, and then they cost nothing."""

    nvtx: Annotated[bool, Option("Make NVTX ranges, for nsys profile.", flags=("--nvtx",))] = False
    """They need the extra `nvtx`."""
    trace: Annotated[
        bool, Option("Write a trace of the first steps, for Perfetto.", flags=("--trace",))
    ] = False
    """Those steps are slower."""
    trace_steps: Annotated[
        int | None, Option("Steps in the trace, after the first one; 20.", least=1, metavar="N")
    ] = None
    """Of PyTorch's work, after the warm-up; None means 20."""
    tensorboard: Annotated[
        Path | None, Option("Log each step there, for TensorBoard.", metavar="DIR")
    ] = None
    """One folder in it for each run; needs the extra `tensorboard`. A trace is put there, too."""

    def __post_init__(self) -> None:
        if self.trace_steps is not None and not self.trace:
            raise ConfigError(f"trace_steps={self.trace_steps} needs a trace; add --trace")
        check_options(self)

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, as a session records it."""
        return {
            "nvtx": self.nvtx,
            "trace": self.trace,
            "trace_steps": (self.trace_steps or TRACE_STEPS) if self.trace else None,
            "tensorboard": None if self.tensorboard is None else str(self.tensorboard),
        }


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """What is read."""

    sources: Annotated[
        tuple[str, ...],
        SourceArgument(
            "A video, folder or glob; a camera: 0; rtsp://, rtsps://, http(s)://, udp://; a "
            "pattern: test://; a list: cameras.streams. Several make batches.",
            is_needed=False,
            metavar="SOURCE",
        ),
    ]
    """Files are read one after the other."""
    rate: Annotated[str | None, RATE_OPTION] = None
    """None: sources are videos."""
    stride: Annotated[int, Option("Every n-th frame; 1 means all.", least=1)] = 1
    max_steps: Annotated[int | None, Option("Stop after so many steps.", least=1, metavar="N")] = (
        None
    )
    """None means at the end of the last video."""
    on_error: Annotated[
        OnError,
        Option("Damaged frames end the run, are left out, or come as FFmpeg shows them; listed."),
    ] = "raise"
    """Those left out or concealed are counted and listed."""
    decode: Annotated[str, DECODE_OPTION] = "cpu"
    """As `DecoderConfig.parse` takes it: `cuda`, `torchcodec`, ..."""

    def __post_init__(self) -> None:
        check_options(self)
        DecoderConfig.parse(self.decode)
        if not self.sources:
            raise ConfigError("a run needs a source, got none; give the path of a video")


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """How it is computed, where that is not the plain way."""

    fit_batch: bool = False
    """Whether the batch size is chosen by measuring, before the run: `batch_size` is the largest
    that may be taken then."""
    prep_on_gpu: Annotated[
        bool, Option("Preprocess on the GPU, wherever the model runs.", flags=("--prep-on-gpu",))
    ] = False
    amp: Annotated[
        bool,
        Option("Compute in 16 bits where the model can: less memory.", flags=("--use-amp",)),
    ] = False
    """By autocast: float16 on a GPU, bfloat16 on the CPU and where the model is split."""
    compile: Annotated[
        bool, Option("Compile the model first, by torch.compile.", flags=("--enable-compile",))
    ] = False
    """The compilation is not part of the run."""
    split_point: Annotated[
        str | None,
        Option(
            "Run the model up to this layer on the CPU, from there on the device.",
            metavar="MODEL:LAYER",
        ),
    ] = None
    """`resnet50:layer3` or `layer3`; the layer itself runs on the CPU. None: all on the device."""
    core_bind: Annotated[
        str | None,
        Option(
            "Processor cores to run on, with a thread each.",
            metavar="0-3,6|all",
            check=check_cores,
        ),
    ] = None
    """Everything runs on them, and one operation takes as many threads, unless `threads` says
    otherwise. None: those the system gives."""


@dataclass(frozen=True, kw_only=True)
class ComputeOptions:
    """What is computed, and where."""

    model_name: Annotated[str, Option("A model of torchvision: headrace models lists them.")] = (
        "mobilenet_v2"
    )
    """A classification model; where boxes are wanted, a detection model."""
    weights: Annotated[str, WEIGHTS_OPTION] = "DEFAULT"
    batch_size: Annotated[
        int, Option("Frames or pictures of one size in a step.", least=1, metavar="N")
    ] = 16
    """Decoded frames that wait for the model take up to 1 GiB, four batches where these are larger;
    ten batches more are on their way through the stages."""
    prep_level: Annotated[
        PrepLevel, Option("How much preprocessing is done; medium is the model's own.")
    ] = "medium"
    """See headrace.preprocess.levels."""
    device: Annotated[Device, Option("Where the model runs.")] = "cpu"
    threads: Annotated[
        int | None, Option("Threads of one operation on the CPU.", least=1, metavar="N")
    ] = None
    """None leaves PyTorch's choice."""
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    """How it is computed, where that is not the plain way."""

    def __post_init__(self) -> None:
        check_options(self)

    def compute(self) -> Compute:
        """Return where the model runs and how.

        Raises:
            ConfigError: options that do not go together, or the split point is of another model.
        """
        chosen = self.execution
        is_whole = chosen.split_point is None
        precision: Precision = "float16" if self.device == "cuda" and is_whole else "bfloat16"
        return Compute(
            device=self.device,
            precision=precision if chosen.amp else "float32",
            compile=chosen.compile,
            split_layer=None
            if chosen.split_point is None
            else layer_of(chosen.split_point, self.model_name),
        )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where results go."""

    out: Annotated[Path, OUT_OPTION] = Path("headrace_run")
    """Made when missing."""
    video: Annotated[bool, Option("Write an annotated video or not.")] = True
    """Of pictures, annotated copies; predictions are always written."""
    predictions: Annotated[
        PredictionFormat, Option("Predictions as JSON lines, or as a Parquet table.")
    ] = "jsonl"
    """The table needs the extra `parquet`."""
    top_k: Annotated[int, Option("Classes that are named for each frame.", least=1)] = 1
    """The likeliest first."""
    sinks: Annotated[
        tuple[str, ...],
        Option(
            "A class of your own that takes the results as well; its code is run; repeatable.",
            flags=("--sink",),
            metavar="MODULE:CLASS",
            is_repeated=True,
        ),
    ] = ()
    """See `headrace.Sink`. Their modules are imported, which runs the code in them."""

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class DetectionOptions:
    """What is wanted of a model that finds objects; boxes always go to `coco.json`."""

    choice: BoxChoice = field(default_factory=BoxChoice)
    """Which boxes are kept."""
    parquet: Annotated[bool, Option("Write boxes.parquet beside coco.json, or not.")] = True
    """It needs the extra `parquet`."""
    lines: bool = False
    """Whether they go to a file of JSON lines as well, which can be read while the run goes on."""

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
    """How frames come, and what is done when they are too many."""

    view: Annotated[
        View,
        Option("Watch it: as a page, with metrics; metrics without a page; in a window."),
    ] = "none"
    pace: Annotated[
        PaceName,
        Option("Files as fast as they can (auto, offline), or as they would be played."),
    ] = "auto"
    """Cameras and network sources come as they come in any case."""
    overload: Annotated[
        OverloadName,
        Option("Too many frames: keep all, or let newer ones replace older ones (auto)."),
    ] = "auto"
    """`auto`: `keep-last` in real time, `keep-all` offline."""
    max_staleness: Annotated[
        str | None,
        Option('Drop frames that are older, such as "200ms".', metavar="SPAN", check=parse_seconds),
    ] = None
    """Dropped at the border of each stage; None: none is."""
    queue: Annotated[
        int | None,
        Option("Frames of each source that may wait for their turn.", least=1, metavar="N"),
    ] = None
    """None means 1 with `keep-last`, else 2."""
    wait_for_source: Annotated[
        bool, Option("Wait for a source that is not there yet.", flags=("--wait-for-source",))
    ] = False
    """False: a source that cannot be opened at first ends the run."""
    max_seconds: Annotated[
        float | None, Option("Stop reading after so many seconds.", metavar="SECONDS")
    ] = None
    """None means when the sources end."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.max_seconds is not None and not 0 < self.max_seconds < inf:
            raise ConfigError(
                f"max_seconds must be > 0, got {self.max_seconds}; leave it out for no limit"
            )
        parse_seconds(self.max_staleness or "1s")

    @property
    def max_staleness_seconds(self) -> float | None:
        """`max_staleness` as a number."""
        return None if self.max_staleness is None else parse_seconds(self.max_staleness)


@dataclass(frozen=True, kw_only=True)
class LiveClipOptions:
    """What clips a video model gets; a model of single frames takes the defaults alone."""

    clip_len: Annotated[
        int | None,
        Option("Frames of a clip, for a video model; its own if left out.", least=1, metavar="N"),
    ] = None
    clip_stride: Annotated[
        int, Option("Of the frames of a clip; 1 means consecutive ones.", least=1)
    ] = 1
    clip_hop: Annotated[
        int | None,
        Option("Frames from one clip to the next; its span if left out.", least=1, metavar="N"),
    ] = None

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """One run: of files at full speed, or of sources that are read as they come."""

    input: InputOptions
    """What is read. Damaged frames of a stream are always left out, counted and told of, whatever
    its `on_error` says of files."""
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    output: OutputOptions = field(default_factory=OutputOptions)
    detection: DetectionOptions | None = None
    """Which boxes of a detector are kept. None: `task.with_task` chooses them for a detector; any
    other model says what each frame or clip shows."""
    marks: MarkOptions = field(default_factory=MarkOptions)
    flow: FlowOptions = field(default_factory=FlowOptions)
    clips: LiveClipOptions = field(default_factory=LiveClipOptions)

    def decoding(self) -> DecoderConfig:
        """Return what decodes, and where; frames stay on a GPU that preprocesses them, too."""
        decoding = DecoderConfig.parse(self.input.decode)
        is_there = decoding.can_keep and decoding.gpu is not None
        return replace(decoding, keeps_on_device=is_there and self.compute.execution.prep_on_gpu)

    def configuration(self, names: tuple[str, ...] | None = None) -> dict[str, Scalar]:
        """Return every option in force, defaults included, as a session records it.

        Args:
            names: Sources that are read as they come, without credentials; None: files at full
                speed.
        """
        read, computed, output = (
            asdict(self.input),
            computing(self.compute),
            written_to(self.output),
        )
        sources = read.pop("sources")
        if names is None:
            named = {"source": ", ".join(sources)}
            read["decode"] = self.decoding().name
        else:
            named = {"sources": ", ".join(names)}
            del read["decode"]
            read |= asdict(self.flow) | asdict(self.clips)
        if self.detection is not None:
            del output["predictions"], output["top_k"]
        return {
            "model": computed.pop("model_name"),
            **named,
            **read,
            **computed,
            **output,
            **(self.detection.configuration() if self.detection else {}),
            **self.marks.configuration(),
        }


def written_to(output: OutputOptions) -> dict[str, Scalar]:
    """Return where results go, as a session records it."""
    options = asdict(output)
    sinks = ", ".join(options.pop("sinks"))
    return {**options, "out": str(output.out), **({"sinks": sinks} if sinks else {})}


def computing(compute: ComputeOptions) -> dict[str, Scalar]:
    """Return what is computed and how, flat, as a session records it."""
    options = asdict(compute)
    execution: dict[str, Scalar] = options.pop("execution")
    return {**options, **execution}
