"""What every decoding backend takes and gives."""

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
"""What bad media does: end the work; be left out, counted and listed; or, where a frame is damaged,
be shown as FFmpeg shows it, and be marked in the result. A file that cannot be opened is left out
by both of the latter."""


def check_on_error(on_error: str, choices: Sequence[str] = get_args(OnError)) -> None:
    """Do nothing if `on_error` is one of the policies that are offered.

    Raises:
        ConfigError: it is not.
    """
    one_of(choices, on_error=on_error)


@dataclass(frozen=True)
class DecodeJob:
    """One stretch to decode: frames of one stream, in presentation order.

    It starts at the keyframe of its first frame. Frames that are far apart belong in jobs of their
    own, one per GOP: everything between the first and the last frame of a job is decoded.
    """

    wanted: tuple[int, ...]
    """Indices of the frames to deliver, ascending, none twice."""
    goes_on: bool = True
    """Whether a job may follow that reads on from here. If not, what the codec holds back is asked
    for at once, and no frame behind the last is decoded."""
    following: int | None = None
    """The first frame that the job which reads on wants, if that is known: those before it that no
    other refers to are not decoded."""
    conceals: bool = False
    """Whether damaged frames are delivered too, as FFmpeg shows them, behind the others."""

    def __post_init__(self) -> None:
        if not self.wanted or any(b <= a for a, b in pairwise(self.wanted)):
            raise ConfigError(
                f"a job needs at least one frame index, ascending, none twice: {self.wanted}"
            )


@dataclass(kw_only=True)
class DecodeCounters:
    """What decoding cost so far."""

    packets_read: int = 0
    """Packets taken from the container."""
    bytes_read: int = 0
    """Bytes in those packets."""
    frames_decoded: int = 0
    """Frames the codec gave; over frames delivered it is the decode amplification."""
    frames_delivered: int = 0
    """Frames handed out; near `frames_decoded` means that little was decoded in vain."""
    seeks: int = 0
    """Jumps inside a file."""
    opens: int = 0
    """Files opened, also again."""
    brought_down_bytes: int = 0
    """Bytes of frames that came down from a GPU, those that were checked among them."""

    def __add__(self, other: "DecodeCounters") -> "DecodeCounters":
        return DecodeCounters(
            **{name: value + getattr(other, name) for name, value in vars(self).items()}
        )

    def count(self, other: "DecodeCounters") -> None:
        """Add another's to these; `+` gives new ones, which whoever has these does not see."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __sub__(self, other: "DecodeCounters") -> "DecodeCounters":
        return DecodeCounters(
            **{name: value - getattr(other, name) for name, value in vars(self).items()}
        )


class Decoder(Protocol[Pixels]):
    """Decodes jobs of one stream into one shape. Belongs to one thread.

    `Decoder[Array]` hands out arrays on the CPU, `Decoder[torch.Tensor]` tensors on its device.
    """

    @property
    def index(self) -> StreamIndex:
        """The frames there are."""
        ...

    @property
    def shape(self) -> FrameFormat:
        """What each frame is made into."""
        ...

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far; grows with every job."""
        ...

    @property
    def concealed(self) -> frozenset[int]:
        """Indices of those frames of the last job that are damaged and were delivered anyway."""
        ...

    def run(self, job: DecodeJob, out: Out[Pixels] | None = None) -> Iterator[tuple[int, Pixels]]:
        """Yield (index, frame) for every wanted frame, in order; concealed ones come last.

        A frame is uint8 [H, W, 3] in [0, 255], RGB, upright. With `out`, the frame of
        `job.wanted[k]` is written to `out[k]`, which is yielded; without, each frame has memory
        of its own.

        Raises:
            OpenError: the file has changed since it was indexed, or is gone.
            DecodeError: after all good frames: `.missing` names those that cannot be decoded.
        """
        ...

    def rest(self) -> None:
        """Release what decoding needs and a file that lies still does not; it may be run again."""
        ...

    def close(self) -> None:
        """Release the file and the codec; the decoder cannot be used again."""
        ...
