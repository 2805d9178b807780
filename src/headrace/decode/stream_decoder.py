"""Stream decoder: base of the backends, with a job's checks, conversion, counts and errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic

from av.video.frame import VideoFrame

from headrace.decode.converter import ArrayConverter, Converter
from headrace.decode.frame_outputs import FrameWriter, Out, Pixels, StackedOutput
from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.errors import BackendError, DecodeError, OpenError
from headrace.video.container import translate_errors
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex


class Conversion(Generic[Pixels]):
    """Converts the frames of one job into its output. Of a repeated frame the last is kept."""

    def __init__(
        self, converter: Converter[Pixels], wanted: Sequence[int], out: Out[Pixels] | None
    ) -> None:
        """Convert nothing yet; without `out` each frame gets its own memory."""
        self._converter: Converter[Pixels] = converter
        self._slots = {frame_index: slot for slot, frame_index in enumerate(wanted)}
        self._out: Out[Pixels] | None = out
        self.refused: dict[int, DecodeError] = {}
        """Frame index -> error of its conversion."""

    def pixels(self, frame_index: int, frame: VideoFrame) -> Pixels | None:
        """Return a converted frame, in its output slot; None if it fails: see `refused`."""
        slot, out, converter = self._slots[frame_index], self._out, self._converter
        try:
            if isinstance(out, FrameWriter):
                pixels: Pixels = out.write(slot, frame)
            elif isinstance(out, StackedOutput):
                target = out.memory_of(slot, converter.shape_of(frame), converter.new)
                pixels = converter.convert(frame, target)
            else:
                pixels = converter.convert(frame, None if out is None else out[slot])
        except DecodeError as error:
            self.refused[frame_index] = error
            return None
        self.refused.pop(frame_index, None)
        return pixels


POLICIES: Final = (
    "on_error='skip' (--on-error skip) leaves such frames out, 'conceal' keeps them as FFmpeg "
    "repairs them"
)
"""Effects of the policies for damaged frames; true under every policy, for errors and losses."""


def undecodable(index: StreamIndex, missing: Sequence[int], reason: str) -> DecodeError:
    """Return the error of missing frames, ascending; `reason` includes the advice."""
    first = missing[0]
    others = f", nor {len(missing) - 1} more of the requested frames" if len(missing) > 1 else ""
    return DecodeError(
        f"frame {first} of {index.source} cannot be decoded "
        f"(at {index.seconds(first):.3f} s){others}: {reason}",
        source=str(index.source),
        pts=int(index.pts[first]),
        missing=missing,
    )


class StreamDecoder(ABC, Generic[Pixels]):
    """Decodes jobs of one stream: a `Decoder`. Not thread-safe: one per thread.

    A subclass decodes the frames of a job.
    """

    def __init__(
        self,
        index: StreamIndex,
        shape: FrameFormat | None,
        converter: Converter[Any] | None = None,
    ) -> None:
        """Open nothing yet; without `converter`, pixels are arrays."""
        self.index = index
        """The index of the stream."""
        self.shape = shape or FrameFormat()
        """Format of the decoded frames."""
        self.counters = DecodeCounters()
        """Counters of all jobs so far."""
        upright = index.info.orientation
        chosen: Any = converter or ArrayConverter(self.shape, upright, str(index.source))
        self._converter: Converter[Pixels] = chosen
        self._concealed: set[int] = set()

    @property
    def concealed(self) -> frozenset[int]:
        """Indices of damaged frames of the last job that were delivered anyway."""
        return frozenset(self._concealed)

    def run(self, job: DecodeJob, out: Out[Pixels] | None = None) -> Iterator[tuple[int, Pixels]]:
        """Yield (index, frame) for every wanted frame: see `Decoder.run`.

        Raises:
            BackendError: the backend cannot decode the stream, or fails. The next job starts anew.
        """
        index = self.index
        try:
            with translate_errors(DecodeError, index.source, "decode"):
                index.check(job.wanted[0])
                index.check(job.wanted[-1])
                index.check_unchanged(job.wanted[0])
                self._concealed.clear()
                self._begin(job)
                lost: list[int] = []
                conversion: Conversion[Pixels] = Conversion(self._converter, job.wanted, out)
                for frame_index, pixels in self._decode(job, conversion, lost):
                    self.counters.frames_delivered += 1
                    yield frame_index, pixels
                refused: dict[int, DecodeError] = conversion.refused
                if missing := sorted({*lost, *refused} - self._concealed):
                    error = next(iter(refused.values()), None) or self._error_of(job, missing)
                    raise DecodeError(
                        str(error), source=error.source, pts=error.pts, missing=missing
                    )
        except OpenError:
            index.check_unchanged(job.wanted[0])  # names the frame if the file is gone
            raise
        except BackendError:
            self._start_anew()
            raise

    @abstractmethod
    def rest(self) -> None:
        """Release the codec's memory between jobs; the decoder can run again."""

    @abstractmethod
    def close(self) -> None:
        """Release the file and the codec; the decoder cannot be used again."""

    @abstractmethod
    def _decode(
        self, job: DecodeJob, conversion: Conversion[Pixels], lost: list[int]
    ) -> Iterator[tuple[int, Pixels]]:
        """Yield the converted frames, concealed ones last; add damaged ones to `lost`.

        Concealed frames are added to `_concealed` too, before they are yielded.
        """

    @abstractmethod
    def _error_of(self, job: DecodeJob, missing: Sequence[int]) -> DecodeError:
        """Return the error of frames, ascending, that were not decoded."""

    def _begin(self, job: DecodeJob) -> None:
        """Prepare a job.

        Raises:
            BackendError: the backend cannot run it.
        """

    def _start_anew(self) -> None:
        """Drop the state that an error of the backend may have left."""
