"""Which model an experiment runs, and how: options that several experiments have in common."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias

from headrace.decode.index_store import IndexStore
from headrace.decode.indexing import scan_ahead
from headrace.errors import ConfigError
from headrace.measuring.config_fields import Option
from headrace.models.precision import Device
from headrace.preprocess.spec import PrepLevel
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    from headrace.runs.options import ComputeOptions

ModelName: TypeAlias = Annotated[str, Option("A classification model of torchvision.")]
Weights: TypeAlias = Annotated[
    str,
    Option("none (random ones: times are the same), DEFAULT (torchvision's), or a checkpoint."),
]
OnDevice: TypeAlias = Annotated[Device, Option("Where the model runs.")]
Prepared: TypeAlias = Annotated[PrepLevel, Option("How much preprocessing is done.")]
Threads: TypeAlias = Annotated[
    int | None, Option("Threads of one operation of PyTorch on the CPU.", least=1)
]

BatchSize: TypeAlias = Annotated[int, Option("Frames in a batch.", least=1)]
TurnSeconds: TypeAlias = Annotated[
    float, Option("How long a turn takes, about.", above=0, most=3600)
]
Repeats: TypeAlias = Annotated[int, Option("Turns of each way.", least=1)]

USUAL_MODEL = "resnet18"
"""Of the size that people run, and quick enough that a turn on two cores holds several batches: its
convolutions fill the processor, as those of larger models do."""
SMALL_MODEL = "mobilenet_v3_small"
"""Light enough that decoding and preprocessing count, as they do on a GPU with a large one."""


class ModelChoice(Protocol):
    """The options above, as an experiment's configuration has them."""

    @property
    def model_name(self) -> str: ...

    @property
    def weights(self) -> str: ...

    @property
    def prep_level(self) -> PrepLevel: ...

    @property
    def device(self) -> Device: ...

    @property
    def threads(self) -> int | None: ...


def compute_of(choice: ModelChoice, batch_size: int = 1) -> "ComputeOptions":
    """Return the choice as a run takes it."""
    from headrace.runs.options import ComputeOptions

    return ComputeOptions(
        model_name=choice.model_name,
        weights=choice.weights,
        batch_size=batch_size,
        prep_level=choice.prep_level,
        device=choice.device,
        threads=choice.threads,
    )


def allowed_difference(device: Device) -> float:
    """Return how far scores of two ways of a model may be apart, ÷ the largest |score|.

    Sums are made in another order, which changes the last digits of float32; on a GPU PyTorch
    computes convolutions in TF32, which has three decimal digits.
    """
    return 1e-3 if device == "cpu" else 1e-2


def check_one(videos: Sequence[str], experiment: str) -> None:
    """Refuse several videos.

    Raises:
        ConfigError: there are more than one.
    """
    if len(videos) > 1:
        raise ConfigError(
            f"bench {experiment} takes one video, got {len(videos)}: {videos[0]}, {videos[1]}"
            f"{', ...' if len(videos) > 2 else ''}"
        )


def indexes_of(videos: Sequence[str], store: IndexStore | None) -> list[StreamIndex]:
    """Return the index of each video, before anything slow begins.

    Raises:
        MediaError: one cannot be opened.
        ConfigError: one has no length, so that nothing can be paced by it.
    """
    sources = [Source.of(video) for video in videos]
    open_one = scan_ahead(sources, store or IndexStore(), raises=True)
    indexes = [open_one(source) for source in sources]
    for index in indexes:
        if not index.duration_seconds > 0:
            raise ConfigError(f"{index.source} has no length; give a video that plays")
    return indexes
