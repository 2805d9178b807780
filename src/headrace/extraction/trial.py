"""A few samples of what an extraction makes, made in a child process and thrown away."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.errors import MediaError
from headrace.extraction.extraction import Extraction
from headrace.extraction.request import Request
from headrace.records import from_dict, recorded, to_dict
from headrace.runtime.child import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.speaker import chunks_to_do
from headrace.runtime.workers import Work, work_through
from headrace.video.image_sequence import source_at
from headrace.video.stream_index import StreamIndex

_SECONDS: Final = 5.0
"""After which no further sample is begun."""


@recorded
@dataclass(frozen=True, kw_only=True)
class Sample:
    """What making one took."""

    frames: int
    num_bytes: int
    """Of what was made."""
    pixels: int
    """Of all its frames."""
    encode_seconds: float
    """With all that is done after decoding."""
    decoded_pixels: int
    """That were decoded for it."""
    decode_seconds: float


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of trying."""

    samples: tuple[Sample, ...]
    fallen: Mapping[str, str]
    """Name of a sample that ended its process → how."""

    @classmethod
    def of(
        cls,
        extraction: Extraction[Any, Any],
        told: Mapping[str, Json],
        function: ChildFunction,
        *,
        more: Mapping[str, Json] | None = None,
    ) -> "Trial":
        """Have a child process make samples; one that ends it is left out.

        Args:
            extraction: Of what.
            told: Name of each → path of its video, number of its first frame, and rate
                of the pictures.
            function: What the child runs: `do_samples`.
            more: What the child is told besides.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C.
        """
        found: list[Sample] = []

        def hear(worker: str, name: str, said: Any) -> None:
            found.append(from_dict(Sample, said, file=worker))

        with TemporaryDirectory(prefix="headrace-") as claims:
            work = Work(
                function=function,
                argument={
                    "request": extraction.plan.request.text(),
                    "store": str(extraction.store.folder.absolute()),
                    **(more or {}),
                },
                claims=Path(claims),
                workers=1,
                stall_seconds=extraction.options.stall_seconds,
            )
            outcome = work_through(work, told, on_said=hear, clock=extraction.clock)
        if outcome.is_interrupted:
            raise KeyboardInterrupt
        return cls(samples=tuple(found), fallen=outcome.fallen)

    def num_bytes(self, pixels: float) -> int | None:
        """Return how many bytes so many pixels make; None where there is no sample."""
        if not self.samples:
            return None
        return round(self._of("num_bytes") / self._of("pixels") * pixels)

    def seconds(self, pixels: float, decoded_pixels: float) -> float | None:
        """Return how long one worker takes for so many pixels; None where there is no sample."""
        if not self.samples:
            return None
        decoding = self._of("decode_seconds") / self._of("decoded_pixels")
        return decoded_pixels * decoding + pixels * self._of("encode_seconds") / self._of("pixels")

    def _of(self, name: str) -> float:
        return float(sum(getattr(sample, name) for sample in self.samples))


def request_told(argument: Json) -> Request:
    """Return the request that a child is told of."""
    assert isinstance(argument, dict)
    return Request.parse(str(argument["request"]))


def do_samples(
    argument: Json, send: Callable[[Json], None], make: Callable[[StreamIndex, int], Sample]
) -> None:
    """Make samples, and say what each took; one that cannot be decoded is left out.

    Args:
        argument: What the child is told.
        send: Sends what is said.
        make: Makes one, of a video from a frame on.
    """
    assert isinstance(argument, dict)
    store, began_ns = IndexStore(Path(str(argument["store"]))), SYSTEM_CLOCK.now_ns()
    for speaker in chunks_to_do(argument, send):
        if SYSTEM_CLOCK.now_ns() - began_ns > _SECONDS * 1e9:
            continue
        assert isinstance(speaker.told, list)
        path, first, rate = speaker.told
        source = source_at(str(path), rate=None if rate is None else str(rate))
        try:
            made = make(open_index(source, store), int(str(first)))
        except MediaError:
            continue
        speaker.say(to_dict(made))
