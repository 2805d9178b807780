"""Base configurations of benchmarks: videos, model, execution."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypeAlias

from headrace.config_fields import FrameSize, Option, Videos, check_options
from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import scan_ahead
from headrace.errors import ConfigError, DecodeError
from headrace.models.compute import Device, Precision
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.findings.finding import Change
from headrace.runs.run_options import ComputeOptions
from headrace.sampling.clip_shape import Boundary
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    from headrace.loaders.datasets import VideoDataset

ModelName: TypeAlias = Annotated[str, Option("Torchvision classification model.")]
Weights: TypeAlias = Annotated[
    str, Option("none (random weights, equal times), DEFAULT (torchvision's), or a checkpoint.")
]
OnDevice: TypeAlias = Annotated[Device, Option("Device of the model.")]
Prepared: TypeAlias = Annotated[PrepLevel, Option("Preprocessing level.")]
Threads: TypeAlias = Annotated[
    int | None, Option("Intra-op threads of PyTorch on the CPU.", least=1)
]

BatchSize: TypeAlias = Annotated[int, Option("Frames per batch.", least=1)]
ClipsPerBatch: TypeAlias = Annotated[int, Option("Clips per batch.", least=1)]
OnShortVideo: TypeAlias = Annotated[Boundary, Option("Policy for videos shorter than a clip.")]
TurnSeconds: TypeAlias = Annotated[
    float, Option("Approximate seconds per repetition.", above=0, most=3600)
]
Repeats: TypeAlias = Annotated[int, Option("Repetitions per variant.", least=1)]

USUAL_MODEL: Final = "resnet18"
"""Common size, and fast enough for several batches per repetition on two cores; its convolutions
keep the CPU as busy as those of larger models."""
SMALL_MODEL: Final = "mobilenet_v3_small"
"""Light, so decoding and preprocessing matter, as they do with a GPU."""
OF_MODEL_ALONE: Final = (
    "These figures are for the model alone: a run gains as much only if the model limits it."
)
PREP_ON_GPU: Final = Change(
    words="headrace run --infer-on-gpu --prep-on-gpu",
    options={"device": "cuda", "prep_on_gpu": True},
)


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig:
    """Base options of a benchmark. Each field, inherited or added, is a command-line option."""

    one_video_of: ClassVar[str] = ""
    """Name of the benchmark, if it takes exactly one video."""
    videos: Videos

    def __post_init__(self) -> None:
        check_options(self)
        if self.one_video_of and len(self.videos) > 1:
            first, second, *more = self.videos
            raise ConfigError(
                f"bench {self.one_video_of} takes one video, got {len(self.videos)}: {first}, "
                f"{second}{', ...' if more else ''}"
            )


@dataclass(frozen=True, kw_only=True)
class ClipsConfig(BenchmarkConfig):
    """Options of a benchmark that loads clips with a stock DataLoader."""

    batch_size: ClipsPerBatch = 1
    clip_len: Annotated[int, Option("Frames per clip.", least=1)] = 16
    stride: Annotated[int, Option("Distance between frames; 1: consecutive.", least=1)] = 2
    size: FrameSize = (256, 256)
    boundary: OnShortVideo = "wrap"

    def dataset(self, clips_per_video: int, store: IndexStore | None) -> "VideoDataset":
        """Return a dataset with the same clips in each epoch. Imports PyTorch.

        Raises:
            MediaError: a video cannot be read.
            ConfigError: a video is too short for a clip.
        """
        from headrace.loaders.datasets import VideoDataset

        dataset = VideoDataset(
            self.videos * clips_per_video,
            self.clip_len,
            self.stride,
            size=self.size,
            boundary=self.boundary,
            index_store=store,
        )
        dataset.set_epoch(0)
        return dataset


@dataclass(frozen=True, kw_only=True)
class ModelConfig(BenchmarkConfig):
    """Options of a benchmark with a model."""

    model_name: ModelName = SMALL_MODEL
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"

    def compute_options(self, batch_size: int = 1) -> ComputeOptions:
        """Return the model options of a run."""
        return compute_options_of(self, batch_size)


@dataclass(frozen=True, kw_only=True)
class ThreadedModelConfig(ModelConfig):
    """Options of a benchmark with a model and its intra-op threads."""

    threads: Threads = None


@dataclass(frozen=True, kw_only=True)
class ModelTurnsConfig(ThreadedModelConfig):
    """Options of a benchmark that runs a model on batches of a video."""

    model_name: ModelName = USUAL_MODEL
    batch_size: BatchSize = 16
    seconds: TurnSeconds = 2.0
    repeats: Repeats = 3


def compute_options_of(config: BenchmarkConfig, batch_size: int) -> ComputeOptions:
    """Return the options of a run with the model; absent options have the run's defaults."""
    names = [field.name for field in fields(ComputeOptions)]
    shared = {name: getattr(config, name) for name in names if hasattr(config, name)}
    return ComputeOptions(**shared | {"batch_size": batch_size})


def allowed_difference(device: Device) -> float:
    """Return the tolerance of scores between two variants, relative to the largest |score|.

    A different order of summation changes the last digits of float32. On a GPU, PyTorch computes
    convolutions in TF32, which has three decimal digits.
    """
    return 1e-3 if device == "cpu" else 1e-2


def usual_precisions(device: Device) -> tuple[Precision, ...]:
    """Return the precisions to time on a device; most CPUs emulate float16. Imports PyTorch."""
    import torch

    if device == "cpu":
        return ("float32", "bfloat16")
    return ("float32", "float16", *(("bfloat16",) if torch.cuda.is_bf16_supported() else ()))


def indexes_of(videos: Sequence[str], store: IndexStore | None) -> list[StreamIndex]:
    """Return the index of each video; call it before slow work.

    Raises:
        MediaError: a video cannot be opened.
        ConfigError: a video has no duration, so it cannot be paced.
    """
    sources = [Source.of(video) for video in videos]
    open_index = scan_ahead(sources, store or IndexStore(), raises=True)
    indexes = [open_index(source) for source in sources]
    for index in indexes:
        if not index.duration_seconds > 0:
            raise ConfigError(
                f"{index.source} has no duration, so it cannot be played; give another"
            )
    return indexes


def unequal_frame(index: StreamIndex, frame: int, baseline: str, at: str = "") -> DecodeError:
    """Return the error for a frame that differs between a baseline and headrace."""
    return DecodeError(
        f"frame {frame} of {index.source}{at} differs between {baseline} and headrace, so nothing "
        "was timed; `headrace doctor --parity` compares headrace with a linear read",
        source=str(index.source),
        pts=int(index.pts[frame]),
    )
