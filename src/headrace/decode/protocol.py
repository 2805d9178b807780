"""Decoder protocol: the jobs of a decoder, and their cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol, get_args

from headrace.decode.frame_outputs import Out, Pixels
from headrace.errors import ConfigError
from headrace.units import one_of
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex

OnError = Literal["raise", "skip", "conceal"]
"""Policy for bad media: `raise` ends the work; `skip` skips, counts and lists it; `conceal`
delivers a damaged frame as FFmpeg conceals it, marked in the result. `skip` and `conceal` skip a
file that cannot be opened."""


def check_on_error(on_error: str, choices: Sequence[str] = get_args(OnError)) -> None:
    """Check that `on_error` is one of the offered policies.

    Raises:
        ConfigError: it is not.
    """
    one_of(choices, on_error=on_error)


@dataclass(frozen=True)
class DecodeJob:
    """A range of frames to decode from one stream, in presentation order.

    Decoding starts at the keyframe of the first frame. All frames between the first and the last
    are decoded, so frames far apart belong in separate jobs, one per GOP.
    """

    wanted: tuple[int, ...]
    """Indices of the frames to deliver, ascending, without duplicates."""
    goes_on: bool = True
    """Whether a later job may continue from the end of this one. If not, the codec is drained at
    once, and no frame after the last is decoded."""
    following: int | None = None
    """The first wanted frame of the later job, if known: disposable frames before it are not
    decoded."""
    conceals: bool = False
    """Whether damaged frames are delivered after the others, as FFmpeg conceals them."""

    def __post_init__(self) -> None:
        if not self.wanted or any(b <= a for a, b in pairwise(self.wanted)):
            raise ConfigError(
                "wanted must be one or more frame indices, ascending and without duplicates, "
                f"got {self.wanted}"
            )


@dataclass(kw_only=True)
class DecodeCounters:
    """Cumulative cost of decoding."""

    packets_read: int = 0
    """Packets read from the container."""
    bytes_read: int = 0
    """Bytes in those packets."""
    frames_decoded: int = 0
    """Frames output by the codec; divided by frames delivered it is the decode amplification."""
    frames_delivered: int = 0
    """Frames delivered; near `frames_decoded`, little decoding is wasted."""
    seeks: int = 0
    """Seeks inside a file."""
    opens: int = 0
    """File opens, including repeated ones."""
    brought_down_bytes: int = 0
    """Bytes of frames copied from a GPU, including those copied for checks."""

    def __add__(self, other: "DecodeCounters") -> "DecodeCounters":
        return DecodeCounters(
            **{name: value + getattr(other, name) for name, value in vars(self).items()}
        )

    def count(self, other: "DecodeCounters") -> None:
        """Add another's counts in place; `+` returns a new object."""
        vars(self).update(vars(self + other))

    def __sub__(self, other: "DecodeCounters") -> "DecodeCounters":
        return DecodeCounters(
            **{name: value - getattr(other, name) for name, value in vars(self).items()}
        )


class Decoder(Protocol[Pixels]):
    """Decodes jobs of one stream into one format. Belongs to one thread.

    `Decoder[Array]` delivers arrays on the CPU, `Decoder[torch.Tensor]` tensors on its device.
    """

    @property
    def index(self) -> StreamIndex:
        """The index of the stream."""
        ...

    @property
    def shape(self) -> FrameFormat:
        """Format of the decoded frames."""
        ...

    @property
    def counters(self) -> DecodeCounters:
        """Cost so far; grows with every job."""
        ...

    @property
    def concealed(self) -> frozenset[int]:
        """Indices of damaged frames of the last job that were delivered anyway."""
        ...

    def run(self, job: DecodeJob, out: Out[Pixels] | None = None) -> Iterator[tuple[int, Pixels]]:
        """Yield (index, frame) for every wanted frame, in order; concealed frames come last.

        A frame is uint8 [H, W, 3] in [0, 255], RGB, upright. With `out`, the frame of
        `job.wanted[k]` is written to `out[k]`, which is yielded; without, each frame has its own
        memory.

        Raises:
            OpenError: the file has changed since it was indexed, or is gone.
            DecodeError: raised after all good frames; `.missing` lists those that cannot be
                decoded.
        """
        ...

    def rest(self) -> None:
        """Release the codec's memory between jobs; the decoder can run again."""
        ...

    def close(self) -> None:
        """Release the file and the codec; the decoder cannot be used again."""
        ...
