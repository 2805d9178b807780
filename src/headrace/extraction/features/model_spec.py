"""Samples, model, its signature, numerics and resources of features, as values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.config_fields import Option, check_options
from headrace.errors import ConfigError
from headrace.models.compute import WEIGHTS_OPTION, Device, Precision
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.provenance import Scalar
from headrace.records import recorded
from headrace.sampling.clip_shape import clip_span
from headrace.sampling.selection import EveryNth, Selection, selection_of
from headrace.units import check_integers, one_of
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class ClipShape:
    """Clip of `num_frames` frames, `stride` apart."""

    num_frames: int
    stride: Annotated[
        int, Option("Stride of the frames of a clip; 1: consecutive frames.", least=1)
    ] = 1
    """1 means consecutive frames."""

    def __post_init__(self) -> None:
        check_integers(1, num_frames=self.num_frames, stride=self.stride)

    @property
    def span(self) -> int:
        """Frames of the video from the first to the last frame of the clip, both included."""
        return clip_span(self.num_frames, self.stride)


@dataclass(frozen=True, kw_only=True)
class SampleSpec:
    """Samples of a video, frames or clips; each has one feature.

    `SampleSpec(selection=EveryNth(16), clip=ClipShape(num_frames=16, stride=2))`: a clip of 16
    frames, stride 2, starts at every 16th frame, if the whole clip lies in the video.
    """

    selection: Selection = field(default_factory=lambda: EveryNth(1))
    """Selected frames, or first frames of clips."""
    clip: ClipShape | None = None
    """None: each sample is a single frame."""

    def starts(self, index: StreamIndex) -> NDArray[np.int64]:
        """Return the index of the first frame of each sample, int64 [n], ascending.

        Empty if the video is shorter than a clip.

        Raises:
            ConfigError: a requested time lies after the end of the video.
        """
        starts = self.selection.of(index)
        return starts if self.clip is None else starts[starts + self.clip.span <= len(index)]

    def frames(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frames of samples, int64 [n, T], in order; T is 1 for frames."""
        if self.clip is None:
            return starts[:, None]
        return starts[:, None] + np.arange(0, self.clip.span, self.clip.stride)

    @property
    def frames_per_sample(self) -> int:
        """Frames of a sample: T."""
        return 1 if self.clip is None else self.clip.num_frames

    @property
    def clip_frames(self) -> int | None:
        """Frames of a clip; None: samples are frames."""
        return None if self.clip is None else self.clip.num_frames

    @property
    def noun(self) -> str:
        """Name of a sample in sentences."""
        return "frame" if self.clip is None else "clip"

    def asked(self) -> dict[str, Scalar]:
        """Return the sampling as options by name, for a request: see `of_asked`."""
        clip = self.clip
        return {
            "frames": str(self.selection),
            "clip_len": None if clip is None else clip.num_frames,
            "stride": None if clip is None else clip.stride,
        }

    @classmethod
    def of_asked(cls, asked: Mapping[str, Scalar]) -> "SampleSpec":
        """Return the sampling from the entries of `asked`; other entries are ignored.

        Raises:
            ConfigError: the entries are not a valid sampling.
        """
        num_frames, stride = asked["clip_len"], asked["stride"]
        clip = None
        if num_frames is not None:
            clip = ClipShape(num_frames=int(num_frames), stride=int(stride or 1))
        return cls(selection=selection_of(str(asked["frames"])), clip=clip)


FeatureType = Literal["float32", "float16"]
"""Dtype of stored features."""

_NO_FILES: Final = ("DEFAULT", "none")
"""Names of weights that are not files."""
_BUILD: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True, kw_only=True)
class TorchvisionModelSpec:
    """Model of torchvision, and the layer of its features."""

    name: str
    """torchvision's name: `resnet50`; a video model such as `r3d_18` takes clips."""
    layer: Annotated[
        str | None,
        Option("Layer whose output is the feature; default: the input of the classifier."),
    ] = None
    """Name of the layer in `named_modules()`. None: the input of the classifier, the pooled
    features."""
    weights: Annotated[str, WEIGHTS_OPTION] = "DEFAULT"
    """`DEFAULT` (torchvision's own), `none` (random, the same in each process) or the path of a
    checkpoint."""
    prep_level: Annotated[
        PrepLevel, Option("Amount of preprocessing; medium is the model's own.")
    ] = "medium"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def weights_file(self) -> Path | None:
        """Path of the user's weight file; None: torchvision's or random weights."""
        return None if self.weights in _NO_FILES else Path(self.weights)


@dataclass(frozen=True, kw_only=True)
class OwnModel:
    """Custom model: the return value of the function `build`, called without arguments.

    The function may return any callable that maps uint8 [N, 3, H, W], RGB, on the device (clips:
    [N, 3, T, H, W]) to a tensor [N, ...]. An `nn.Module` is moved to the device and run in
    evaluation mode; the mode of each layer is restored after each batch.

    Optional attributes: `size`, the (height, width) of its input frames, by default each video's
    size; `version`, a text that changes with its results. Results of a callable that is not a
    module are cached only with a `version`.
    """

    build: str
    """"package.module:function", importable by Python."""

    def __post_init__(self) -> None:
        if not _BUILD.fullmatch(self.build):
            raise ConfigError(
                'a custom model must be named "package.module:function", got '
                f"{self.build!r}; give a torchvision model with --model-name"
            )


FeatureModelSpec = TorchvisionModelSpec | OwnModel


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """Device and precision of a model; they affect the last digits of features."""

    device: Annotated[
        str, Option("Device; cuda: one process per GPU.", metavar="cpu|cuda|cuda:N")
    ] = "cpu"
    """`cpu`, `cuda` (the first GPU) or `cuda:N`."""
    precision: Precision = "float32"
    """Below float32 by autocast: weights stay in float32."""
    dtype: Annotated[FeatureType, Option("Dtype of the stored features.")] = "float32"
    """Dtype of stored features."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise ConfigError(
                f"device must be cpu, cuda or cuda:N, for example cuda:0, got {self.device!r}"
            )
        one_of(Precision, precision=self.precision)
        check_options(self)

    @property
    def kind(self) -> Device:
        """Kind of device."""
        return "cpu" if self.device == "cpu" else "cuda"


@recorded
@dataclass(frozen=True, kw_only=True)
class WorkerResources:
    """Resources of one worker process. They change features only by rounding."""

    batch_size: int | Literal["auto"] = 16
    """Samples of one size per run of the model; `auto` measures the best number."""
    decoders: int = 0
    """Threads that decode beside the model, one chunk each. 0: the model's thread decodes, which on
    the CPU is fastest with one process per core."""
    threads: int | None = None
    """Threads of one PyTorch operation on the CPU; None keeps PyTorch's choice."""

    def __post_init__(self) -> None:
        if self.batch_size != "auto":
            check_integers(1, batch_size=self.batch_size)
        check_integers(0, decoders=self.decoders)
        check_integers(1, threads=self.threads)


_TORCHVISION_FIELDS: Final = ("layer", "weights", "prep_level")
_NUMERICS_FIELDS: Final = ("device", "precision", "dtype")


def asked_of(spec: FeatureModelSpec, numerics: Numerics) -> dict[str, Scalar]:
    """Return model and numerics as options by name, for a request, without the index of a GPU.

    A checkpoint is named by its absolute path.
    """
    model: dict[str, Scalar] = dict.fromkeys(("model_name", *_TORCHVISION_FIELDS, "model"))
    if isinstance(spec, OwnModel):
        model["model"] = spec.build
    else:
        model |= {"model_name": spec.name} | {
            name: vars(spec)[name] for name in _TORCHVISION_FIELDS
        }
        if spec.weights_file is not None:
            model["weights"] = str(spec.weights_file.absolute())
    return {**model, **vars(numerics), "device": numerics.kind}


def model_of_asked(asked: Mapping[str, Any]) -> FeatureModelSpec:
    """Return the model from the entries of `asked_of`.

    Raises:
        ConfigError: the entries are invalid.
    """
    if asked["model"] is not None:
        return OwnModel(build=str(asked["model"]))
    return TorchvisionModelSpec(
        name=asked["model_name"], **{name: asked[name] for name in _TORCHVISION_FIELDS}
    )


def numerics_of_asked(asked: Mapping[str, Any]) -> Numerics:
    """Return the numerics from the entries of `asked_of`, on the first device of the kind.

    Raises:
        ConfigError: the entries are invalid.
    """
    return Numerics(**{name: asked[name] for name in _NUMERICS_FIELDS})


@recorded
@dataclass(frozen=True, kw_only=True)
class ModelSignature:
    """Signature of a model, its layer and its numerics: see `feature_facts`."""

    shape: tuple[int, ...]
    """Shape of one feature, without the batch dimension; () is a single number."""
    layer: str
    """Layer of the features; empty for a custom model."""
    origin: str
    """Origin of the weights, for the record."""
    preprocess: Mapping[str, Any]
    model: Mapping[str, Any]
    numerics: Mapping[str, Any]
    """Groups of the cache key: see `ChunkKey`."""
    uncached: str | None = None
    """Reason results have no key and are not cached; None: they have a key."""
    is_training: bool = False
    """Whether a custom module was in training mode when built; it runs in evaluation mode."""
