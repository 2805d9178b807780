"""What `bench memory` is asked for."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from headrace.bench.model_choice import ModelName, OnDevice, Prepared, Threads, Weights
from headrace.errors import ConfigError
from headrace.measuring.config_fields import Option, VideoArgument, check_options
from headrace.report.numbers import counted, seconds
from headrace.sizes import parse_bytes

SIZES: Final[dict[str, tuple[int, int]]] = {
    "360p": (360, 640),
    "720p": (720, 1280),
    "1080p": (1080, 1920),
    "4K": (2160, 3840),
}
"""(height, width)."""
RUN_MODEL: Final = "mobilenet_v2"
"""That of `headrace run`, which takes the figures for its batch size."""
ROW_SECONDS: Final = 120.0
"""That batches of one precision and one size of frames may take together."""


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """What is measured."""

    videos: Annotated[
        tuple[str, ...],
        VideoArgument("Videos whose largest frame size is measured as well.", is_needed=False),
    ] = ()
    sizes: Annotated[
        tuple[Literal["360p", "720p", "1080p", "4K"], ...], Option("Sizes of the frames.")
    ] = ("360p", "720p", "1080p", "4K")
    batch_sizes: Annotated[tuple[int, ...], Option("Frames in a batch.", least=1)] = (1, 4, 16)
    precisions: Annotated[
        tuple[Literal["auto", "float32", "float16", "bfloat16"], ...],
        Option("float32, float16, bfloat16; auto: float32, and in 16 bits what suits the device."),
    ] = ("auto",)
    model_name: ModelName = RUN_MODEL
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"
    threads: Threads = None
    max_memory: Annotated[
        str | None,
        Option("Most to take, like 4GiB; else 1/4 of free main memory, 9/10 of a GPU's."),
    ] = None

    def __post_init__(self) -> None:
        check_options(self)
        if not self.sizes or not self.precisions:
            raise ConfigError("sizes and precisions must name one at least, got none")
        if self.max_memory is not None:
            parse_bytes(self.max_memory)


def announce(config: MemoryConfig) -> str:
    """Say how long it can take."""
    precisions = len(config.precisions) + ("auto" in config.precisions)
    most = precisions * (len(config.sizes) + bool(config.videos))
    return (
        f"Time: some seconds for each of {counted(most, 'row')} of batches, at most "
        f"{seconds(ROW_SECONDS)} each"
    )
