"""Reading: a decode job run to its end, with what came of it and what was lost."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.decode.frame_outputs import Out, Pixels, StackedOutput
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.errors import DecodeError, MediaError
from headrace.video.frame_loss import FrameLoss
from headrace.video.stream_index import StreamIndex

_CONCEALED = "the file is damaged there; the picture is what FFmpeg shows instead"


@dataclass(frozen=True, kw_only=True, eq=False)
class JobResult:
    """What became of a job: each frame it wanted came, or is lost."""

    index: StreamIndex
    """The frames of the video."""
    wanted: tuple[int, ...]
    """Indices of the frames that were asked for, ascending."""
    came: frozenset[int]
    """Those that were written where they belong."""
    concealed: frozenset[int]
    """Those that came although they are damaged, as FFmpeg shows them."""
    error: MediaError | None
    """Why others did not come; None where all did."""
    cost: DecodeCounters
    """What the job cost."""

    @property
    def lost(self) -> tuple[int, ...]:
        """Indices of those that did not come, ascending."""
        return tuple(index for index in self.wanted if index not in self.came)

    def check(self) -> None:
        """Do nothing if all came.

        Raises:
            MediaError: what kept one from coming.
        """
        if self.error is not None:
            raise self.error

    def losses(self) -> list[FrameLoss]:
        """Return a loss for each frame that did not come, or is concealed, in their order."""
        return [
            FrameLoss.at(self.index, number, _CONCEALED, is_concealed=True)
            if number in self.came
            else FrameLoss.at(self.index, number, str(self.error))
            for number in self.wanted
            if number not in self.came or number in self.concealed
        ]


def read(decoder: Decoder[Pixels], job: DecodeJob, out: Out[Pixels]) -> JobResult:
    """Decode a job into `out`: the frame of `job.wanted[k]` goes to `out[k]`.

    Bad media is no exception but part of what is returned; memory of frames that did not come
    holds anything.

    Raises:
        BackendError: the device cannot decode the video.
    """
    before = replace(decoder.counters)
    came: list[int] = []
    try:
        for index, _ in decoder.run(job, out):
            came.append(index)
    except MediaError as error:
        # Not kept in this frame, which the error itself refers to, as it does to `out`.
        return _reading(decoder, job, came, error, decoder.counters - before)
    return _reading(decoder, job, came, None, decoder.counters - before)


def read_whole(
    decoder: Decoder[Pixels], jobs: Iterable[DecodeJob]
) -> tuple[Pixels, frozenset[int]]:
    """Return the frames of all jobs, one after the other, and the indices of concealed ones.

    They lie in memory of their own, uint8 [frames, H, W, 3], as large as the first.

    Raises:
        MediaError: a frame did not come; a DecodeError names those of all jobs.
    """
    jobs = tuple(jobs)
    stack: StackedOutput[Pixels] = StackedOutput(sum(len(job.wanted) for job in jobs))
    concealed: frozenset[int] = frozenset()
    failed: list[JobResult] = []
    for job in jobs:
        reading = read(decoder, job, stack)
        if isinstance(reading.error, DecodeError):
            failed.append(reading)
        else:
            reading.check()
        concealed |= reading.concealed
        stack.first += len(job.wanted)
    if failed:
        raise _of_all(failed)
    return stack.frames, concealed


def _of_all(failed: list[JobResult]) -> MediaError:
    """Return the first error, naming what all lack."""
    first = failed[0].error
    assert first is not None
    others = sum(len(each.lost) for each in failed[1:])
    if not others:
        return first
    return DecodeError(
        f"{first}; nor can {others} more of the frames that were asked for",
        source=first.source,
        pts=first.pts,
        missing=[number for each in failed for number in each.lost],
    )


def _reading(
    decoder: Decoder[Pixels],
    job: DecodeJob,
    came: list[int],
    error: MediaError | None,
    cost: DecodeCounters,
) -> JobResult:
    return JobResult(
        index=decoder.index,
        wanted=job.wanted,
        came=frozenset(came),
        concealed=decoder.concealed.intersection(came),
        error=error,
        cost=cost,
    )
