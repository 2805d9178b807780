"""Options of `headrace plan`; imports no PyTorch and no NumPy."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from headrace.config_fields import FrameSize, Option, check_options
from headrace.errors import ConfigError
from headrace.sampling.bias import DEFAULT_RHO
from headrace.units import parse_bytes

_FRAMES: Final = 128
_CLIPS: Final = 8
"""Default batch sizes, as of `FrameLoader` and `ClipLoader`."""
_NO_CLIPS: Final = (1, None, "error")
"""Defaults of `stride`, `fps` and `boundary`."""

Boundary = Literal["error", "skip", "pad", "repeat_last", "wrap"]


@dataclass(frozen=True, kw_only=True)
class PlannedClips:
    """Clips to plan for; names as in `RandomClips`."""

    num_frames: Annotated[
        int | None,
        Option(
            "Frames per clip; default: single frames.",
            least=1,
            flags=("--num-frames", "--clip-len"),
        ),
    ] = None
    stride: Annotated[
        int, Option("Distance between frames of a clip; 1: consecutive.", least=1)
    ] = 1
    fps: Annotated[
        str | None, Option("Clip frames per second of media time, instead of a stride.")
    ] = None
    boundary: Annotated[Boundary, Option("Policy for videos shorter than a clip.")] = "error"


@dataclass(frozen=True, kw_only=True)
class PlanConfig(PlannedClips):
    """Options of a plan; names as in `FrameLoader` and `ClipLoader`."""

    batch_size: Annotated[
        int | None, Option("Samples per batch; default: 128 frames, or 8 clips.", least=1)
    ] = None
    memory_budget: Annotated[
        int | str, Option("Memory for buffered frames and three batches, such as 256MiB.")
    ] = "1GiB"
    size: FrameSize = (256, 256)
    target: Annotated[
        float | None,
        Option("Frames per second that the model needs.", least=1, flags=("--target-fps",)),
    ] = None
    """None: as many as possible."""
    rho: Annotated[
        float, Option("Intraclass correlation of gradients within a burst.", least=0, most=1)
    ] = DEFAULT_RHO
    frames_per_burst: Annotated[
        int | None,
        Option("Frames per burst; default: chosen by the planner.", least=2, flags=("--burst",)),
    ] = None
    spill: Annotated[
        str | None, Option("Folder for packed frames on a local disk; estimates disk and speed.")
    ] = None
    trial_seconds: float | None = None
    """Seconds to run each strategy; None: predictions only."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.trial_seconds is not None and not self.trial_seconds > 0:
            raise ConfigError(f"trial_seconds must be > 0, got {self.trial_seconds}")
        parse_bytes(self.memory_budget)
        if self.num_frames is None and (self.stride, self.fps, self.boundary) != _NO_CLIPS:
            raise ConfigError(
                "stride, fps and boundary apply to clips only; set num_frames as well"
            )
        if self.num_frames is not None and self.frames_per_burst is not None:
            raise ConfigError(
                f"frames_per_burst={self.frames_per_burst} applies to single frames only, got "
                f"num_frames={self.num_frames} as well; set one of the two"
            )

    @property
    def samples_per_batch(self) -> int:
        """Frames or clips in a batch."""
        return self.batch_size or (_FRAMES if self.num_frames is None else _CLIPS)

    @property
    def frames_per_batch(self) -> int:
        """Frames in a batch, over all its clips."""
        return self.samples_per_batch * (self.num_frames or 1)

    @property
    def noun(self) -> str:
        """Noun for a sample in sentences."""
        return "frame" if self.num_frames is None else "clip"
