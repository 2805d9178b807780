"""What to run, on what, with what, and where results go: a few values, checked when made."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, get_args

from headrace.decode.decoding import Decoding
from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError
from headrace.models.compute import Compute, Device, Precision, layer_of
from headrace.models.results import BoxChoice
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.provenance import Scalar
from headrace.sinks.predictions import PredictionFormat
from headrace.sizes import check_integers

TRACE_STEPS: Final = 20
"""Steps in a trace: some megabytes at most, and a look at each kind of step."""


@dataclass(frozen=True, kw_only=True)
class MarkOptions:
    """What marks a run leaves for other tools; none by default, and then they cost nothing."""

    nvtx: bool = False
    """Whether NVTX ranges are made, for `nsys profile`; they need the extra `nvtx`."""
    trace: bool = False
    """Whether the first steps are written as a trace for Perfetto; those steps are slower."""
    trace_steps: int | None = None
    """Steps after the warm-up that a trace shows PyTorch's work of; None means 20."""
    tensorboard: Path | None = None
    """Folder of TensorBoard's logs, one folder in it for each run; needs the extra `tensorboard`.
    A trace is put there, too."""

    def __post_init__(self) -> None:
        if self.trace_steps is not None and not self.trace:
            raise ConfigError(f"trace_steps={self.trace_steps} needs a trace; add --trace")
        check_integers(1, trace_steps=self.trace_steps)

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

    sources: tuple[str, ...]
    """Paths of video files; they are read one after the other."""
    rate: str | None = None
    """Pictures a second; each source is then a folder of pictures, or a pattern such as
    frames/%05d.jpg. None: sources are videos."""
    stride: int = 1
    """1 means every frame."""
    max_steps: int | None = None
    """Where to stop; None means at the end of the last video."""
    on_error: OnError = "raise"
    """What damaged frames do: end the run; be left out, counted and listed; or come as FFmpeg shows
    them, counted and listed."""
    decode: str = "cpu"
    """What decodes, and where, as `Decoding.named` takes it: `cuda`, `torchcodec`, ..."""

    def __post_init__(self) -> None:
        _check_least(self, "stride", "max_steps")
        check_on_error(self.on_error)
        Decoding.named(self.decode)
        if not self.sources:
            raise ConfigError("a run needs a source, got none; give the path of a video")


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """How it is computed, where that is not the plain way."""

    fit_batch: bool = False
    """Whether the batch size is chosen by measuring, before the run: `batch_size` is the largest
    that may be taken then."""
    prep_on_gpu: bool = False
    """Whether frames are preprocessed on the GPU, wherever the model runs."""
    amp: bool = False
    """Whether the model computes in fewer bits where it can (autocast): float16 on a GPU, bfloat16
    on the CPU and where the model is split."""
    compile: bool = False
    """Whether torch.compile makes code for the model first; that is not part of the run."""
    split_point: str | None = None
    """`resnet50:layer3` or `layer3`: the model runs on the CPU up to and with this layer, and from
    there on the device. None: all of it there."""
    core_bind: str | None = None
    """`0-3,6` or `all`: the processor cores that everything runs on, and, unless `threads` says
    otherwise, as many threads of one operation. None: those the system gives."""


@dataclass(frozen=True, kw_only=True)
class ComputeOptions:
    """What is computed, and where."""

    model_name: str = "mobilenet_v2"
    """A classification model of torchvision; where boxes are wanted, a detection model."""
    weights: str = "DEFAULT"
    """`DEFAULT` (torchvision's own), `none` (random), or the path of a checkpoint."""
    batch_size: int = 16
    """Frames in a step. Decoded frames that wait for the model take up to 1 GiB, four batches where
    these are larger; ten batches more are on their way through the stages."""
    prep_level: PrepLevel = "medium"
    """How much preprocessing is done: see headrace.preprocess.levels."""
    device: Device = "cpu"
    """Where the model runs."""
    threads: int | None = None
    """Threads of one operation of PyTorch on the CPU; None leaves PyTorch's choice."""
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    """How it is computed, where that is not the plain way."""

    def __post_init__(self) -> None:
        _check_least(self, "batch_size", "threads")
        for name, choices in (("prep_level", PrepLevel), ("device", Device)):
            if getattr(self, name) not in get_args(choices):
                raise ConfigError(
                    f"{name} must be one of {', '.join(get_args(choices))}, "
                    f"got {getattr(self, name)!r}"
                )

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

    out: Path = Path("headrace_run")
    """Folder of the results; made when missing."""
    video: bool = True
    """Whether an annotated video is written, of pictures annotated copies; predictions always
    are."""
    predictions: PredictionFormat = "jsonl"
    """A file of JSON lines, or a Parquet table; the latter needs the extra `parquet`."""
    top_k: int = 1
    """How many classes are named for each frame, the likeliest first."""
    sinks: tuple[str, ...] = ()
    """Sinks of the user's own that take the results as well, as `module:Class`: see
    `headrace.Sink`. Their modules are imported, which runs the code in them."""

    def __post_init__(self) -> None:
        _check_least(self, "top_k")
        if self.predictions not in get_args(PredictionFormat):
            raise ConfigError(
                f"predictions must be one of {', '.join(get_args(PredictionFormat))}, "
                f"got {self.predictions!r}"
            )


@dataclass(frozen=True, kw_only=True)
class DetectionOptions:
    """What is wanted of a model that finds objects; boxes always go to `coco.json`."""

    choice: BoxChoice = field(default_factory=BoxChoice)
    """Which boxes are kept."""
    parquet: bool = True
    """Whether they go to a Parquet table as well; it needs the extra `parquet`."""

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, as a session records it."""
        return {
            "threshold": self.choice.threshold,
            "max_boxes": self.choice.max_boxes,
            "classes": ", ".join(self.choice.classes) or "all",
            "parquet": self.parquet,
        }


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """One run."""

    input: InputOptions
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    output: OutputOptions = field(default_factory=OutputOptions)
    detection: DetectionOptions | None = None
    """None: the model says what each frame shows; else it is a detector, which says where too.
    Formats of predictions and `top_k` are not for its boxes."""
    marks: MarkOptions = field(default_factory=MarkOptions)

    def decoding(self) -> Decoding:
        """Return what decodes, and where; frames stay on a GPU that preprocesses them, too."""
        decoding = Decoding.named(self.input.decode)
        is_there = decoding.can_keep and decoding.gpu is not None
        return replace(decoding, keeps_on_device=is_there and self.compute.execution.prep_on_gpu)

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, defaults included, as a session records it."""
        options = {**asdict(self.input), **computing(self.compute), **written_to(self.output)}
        options["decode"] = self.decoding().name
        sources = ", ".join(options.pop("sources"))
        boxes: dict[str, Scalar] = {}
        if self.detection is not None:
            del options["predictions"], options["top_k"]
            boxes = self.detection.configuration()
        return {
            "model": options.pop("model_name"),
            "source": sources,
            **options,
            **boxes,
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


def _check_least(options: object, *names: str) -> None:
    check_integers(1, **{name: getattr(options, name) for name in names})
