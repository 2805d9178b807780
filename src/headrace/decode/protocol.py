"""Decoder protocol: the jobs of a decoder, their results and their cost."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Protocol, get_args

from headrace.decode.frame_outputs import Out, Pixels, StackedOutput
from headrace.errors import ConfigError, DecodeError, MediaError
from headrace.units import one_of
from headrace.video.frame_format import FrameFormat
from headrace.video.frames import FrameLoss
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


_CONCEALED = "the file is damaged there; the frame is what FFmpeg shows instead"


@dataclass(frozen=True, kw_only=True, eq=False)
class JobResult:
    """Result of a finished job: each wanted frame was delivered or is missing."""

    index: StreamIndex
    """The index of the video."""
    wanted: tuple[int, ...]
    """Indices of the requested frames, ascending."""
    decoded: frozenset[int]
    """Indices of the frames that were written to the output."""
    concealed: frozenset[int]
    """Indices of damaged frames that were delivered as FFmpeg conceals them."""
    error: MediaError | None
    """Error of the missing frames; None if all were delivered."""
    cost: DecodeCounters
    """Decoding cost of the job."""

    @property
    def lost(self) -> tuple[int, ...]:
        """Indices of the missing frames, ascending."""
        return tuple(index for index in self.wanted if index not in self.decoded)

    def check(self) -> None:
        """Check that all frames were delivered.

        Raises:
            MediaError: a frame is missing.
        """
        if self.error is not None:
            raise self.error

    def losses(self) -> list[FrameLoss]:
        """Return the loss of each missing or concealed frame, in frame order."""
        return [
            FrameLoss.at(self.index, frame_index, _CONCEALED, is_concealed=True)
            if frame_index in self.decoded
            else FrameLoss.at(self.index, frame_index, str(self.error))
            for frame_index in self.wanted
            if frame_index not in self.decoded or frame_index in self.concealed
        ]


def run_job(
    decoder: Decoder[Pixels],
    job: DecodeJob,
    out: Out[Pixels],
    on_frame: Callable[[int], None] = lambda index: None,
) -> JobResult:
    """Decode a job into `out`: the frame of `job.wanted[k]` goes to `out[k]`.

    An error of the media is part of the result. Memory of missing frames is undefined.

    Args:
        decoder: Decodes the frames.
        job: Frames to decode.
        out: Their memory.
        on_frame: Called with the index of each frame once its pixels are final.

    Raises:
        BackendError: the device cannot decode the video.
    """
    before = replace(decoder.counters)
    decoded: list[int] = []

    def result(error: MediaError | None) -> JobResult:
        return JobResult(
            index=decoder.index,
            wanted=job.wanted,
            decoded=frozenset(decoded),
            concealed=decoder.concealed.intersection(decoded),
            error=error,
            cost=decoder.counters - before,
        )

    try:
        for index, _ in decoder.run(job, out):
            decoded.append(index)
            on_frame(index)
    except MediaError as error:
        # Not stored in a local: the error refers to this stack frame, and so to `out`.
        return result(error)
    return result(None)


def decode_stacked(
    decoder: Decoder[Pixels], jobs: Iterable[DecodeJob]
) -> tuple[Pixels, frozenset[int]]:
    """Return the frames of all jobs, in order, and the indices of concealed frames.

    Frames are in newly allocated memory, uint8 [frames, H, W, 3], sized like the first.

    Raises:
        MediaError: a frame is missing; a DecodeError lists those of all jobs.
    """
    jobs = tuple(jobs)
    stack: StackedOutput[Pixels] = StackedOutput(sum(len(job.wanted) for job in jobs))
    concealed: frozenset[int] = frozenset()
    failed: list[tuple[MediaError, Sequence[int]]] = []
    for job in jobs:
        result = run_job(decoder, job, stack)
        if isinstance(result.error, DecodeError):
            failed.append((result.error, result.lost))
        else:
            result.check()
        concealed |= result.concealed
        stack.first += len(job.wanted)
    if failed:
        raise combined_error(failed)
    return stack.frames, concealed


def combined_error(failed: Sequence[tuple[MediaError, Sequence[int]]]) -> MediaError:
    """Return the first error of several jobs, with the missing frames of all."""
    first = failed[0][0]
    num_others = sum(len(missing) for _, missing in failed[1:])
    if not num_others:
        return first
    return DecodeError(
        f"{first}; {num_others} more of the requested frames cannot be decoded either",
        source=first.source,
        pts=first.pts,
        missing=[frame_index for _, missing in failed for frame_index in missing],
    )
