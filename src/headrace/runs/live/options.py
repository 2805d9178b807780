"""How a live run goes about its frames: pace, overload, clips, end; checked when made."""

from dataclasses import asdict, dataclass, field
from math import inf
from typing import Annotated, Literal

from headrace.config_fields import Option, check_options
from headrace.decode.decoding import ON_CPU, Decoding
from headrace.errors import ConfigError
from headrace.live.clips import ClipShape, clip_shape
from headrace.live.overload import OverloadName
from headrace.profiling.provenance import Scalar
from headrace.runs.options import (
    ComputeOptions,
    InputOptions,
    MarkOptions,
    OutputOptions,
    RunOptions,
    computing,
    written_to,
)
from headrace.sizes import one_of, parse_seconds

PaceName = Literal["auto", "offline", "realtime"]
View = Literal["none", "web", "metrics", "window"]
"""`metrics` is `web` without its page: for programs only."""


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """How frames come, and what is done when they are too many."""

    pace: Annotated[
        PaceName,
        Option("Files as fast as they can (auto, offline), or as they would be played."),
    ] = "auto"
    """Cameras and network sources come as they come in any case."""
    overload: Annotated[
        OverloadName,
        Option("Too many frames: keep all, or let newer ones replace older ones (auto)."),
    ] = "auto"
    """`auto`: freshest in real time, every frame offline."""
    max_staleness: Annotated[
        str | None,
        Option('Drop frames that are older, such as "200ms".', metavar="SPAN", check=parse_seconds),
    ] = None
    """Dropped at the border of each stage; None: none is."""
    queue: Annotated[
        int | None,
        Option("Frames of each source that may wait for their turn.", least=1, metavar="N"),
    ] = None
    """None means 1 where the freshest are kept, else 2."""
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
class ClipOptions:
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
class LiveOptions:
    """One live run."""

    input: InputOptions
    """What is read. Damaged frames of a stream are always left out, counted and told of, whatever
    its `on_error` says of files."""
    view: Annotated[
        View,
        Option("Watch it: as a page, with metrics; metrics without a page; in a window."),
    ] = "none"
    flow: FlowOptions = field(default_factory=FlowOptions)
    clips: ClipOptions = field(default_factory=ClipOptions)
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    output: OutputOptions = field(default_factory=OutputOptions)
    marks: MarkOptions = field(default_factory=MarkOptions)

    def __post_init__(self) -> None:
        one_of(View, view=self.view)

    @classmethod
    def of(
        cls,
        plain: RunOptions,
        *,
        flow: FlowOptions,
        clips: ClipOptions,
        view: View = "none",
    ) -> "LiveOptions":
        """Return what `plain` says of files, for sources that are read as they come."""
        return cls(
            input=plain.input,
            view=view,
            flow=flow,
            clips=clips,
            compute=plain.compute,
            output=plain.output,
            marks=plain.marks,
        )

    def configuration(self, names: tuple[str, ...]) -> dict[str, Scalar]:
        """Return every option in force, defaults included, as a session records it.

        Args:
            names: Of the sources, without credentials.
        """
        options = (
            asdict(self.flow)
            | asdict(self.clips)
            | computing(self.compute)
            | written_to(self.output)
        )
        return {
            "model": options.pop("model_name"),
            "sources": ", ".join(names),
            "rate": self.input.rate,
            "stride": self.input.stride,
            "max_steps": self.input.max_steps,
            "on_error": self.input.on_error,
            "view": self.view,
            **options,
            **self.marks.configuration(),
        }


def clips_of(options: ClipOptions, num_frames: int | None) -> ClipShape | None:
    """Return the clips for a model of so many frames: see `clip_shape`."""
    return clip_shape(num_frames, stride=options.clip_stride, hop=options.clip_hop)


def check_live(options: LiveOptions) -> None:
    """Raise ConfigError where something is asked for that only files at full speed have."""
    execution = options.compute.execution
    asked = {
        f"--decode {options.input.decode}": Decoding.named(options.input.decode) != ON_CPU,
        "--batch-size auto": execution.fit_batch,
        "--prep-on-gpu": execution.prep_on_gpu,
        "--split-point": execution.split_point is not None,
    }
    for option, is_asked in asked.items():
        if is_asked:
            raise ConfigError(
                f"{option} is for single frames of files at full speed; leave it out for cameras, "
                "for real time, for clips and for what is watched"
            )
