"""Result of a decode job: delivered and missing frames, the error and the cost."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.decode.frame_outputs import Out, Pixels, StackedOutput
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.errors import DecodeError, MediaError
from headrace.video.frame_loss import FrameLoss
from headrace.video.stream_index import StreamIndex

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
    try:
        for index, _ in decoder.run(job, out):
            decoded.append(index)
            on_frame(index)
    except MediaError as error:
        # Not stored in a local: the error refers to this stack frame, and so to `out`.
        return _result(decoder, job, decoded, error, decoder.counters - before)
    return _result(decoder, job, decoded, None, decoder.counters - before)


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


def _result(
    decoder: Decoder[Pixels],
    job: DecodeJob,
    decoded: list[int],
    error: MediaError | None,
    cost: DecodeCounters,
) -> JobResult:
    return JobResult(
        index=decoder.index,
        wanted=job.wanted,
        decoded=frozenset(decoded),
        concealed=decoder.concealed.intersection(decoded),
        error=error,
        cost=cost,
    )
