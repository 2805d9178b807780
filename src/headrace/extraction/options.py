"""What may be asked of an extraction of any kind, and what of it decides what comes out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError
from headrace.extraction.request import CONCEALED, AskedVideo, Request
from headrace.profiling.provenance import Scalar
from headrace.runtime.affinity import available_cores
from headrace.sizes import check_integers

_STALL_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class ExtractionOptions(ABC):
    """Which videos, where to, and how it is done; a class for each kind has the rest.

    Raises:
        ConfigError: a value is out of range, or there is no video.
    """

    kind: ClassVar[str]
    """What a folder of it holds: `frames`."""
    sources: tuple[str, ...]
    """Paths of videos; one that is named twice is read once."""
    out: Path
    """The output folder: a new one, or one that was begun with the same request."""
    workers: int | None = None
    """Processes; None means one for each core this process may use. The result is the same with
    any number."""
    on_error: OnError = "skip"
    """Bad videos and frames are left out and listed, end the extraction, or, where frames are
    damaged, come as FFmpeg shows them."""
    retry: bool = False
    """Whether what ended two workers in an earlier run is tried again."""
    stall_seconds: float = _STALL_SECONDS
    """How long a worker may have nothing to show before it is taken to hang, and ended."""

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_integers(1, workers=self.workers)
        if not self.stall_seconds > 0:
            raise ConfigError(f"stall_seconds must be > 0, got {self.stall_seconds}")
        if not self.sources:
            raise ConfigError("give at least one video")

    @property
    def processes(self) -> int:
        """How many processes work at a time, at most."""
        return self.workers or len(available_cores())

    @property
    def rate(self) -> str | None:
        """Pictures a second, where sources are pictures in order; None: they are videos."""
        return None

    def configuration(self) -> dict[str, Scalar]:
        """Return all of it, by the names of options."""
        return {
            "sources": ",".join(self.sources),
            **self.asked(),
            "out": str(self.out),
            **self._means(),
            "on_error": self.on_error,
            "retry": self.retry,
            "stall_seconds": self.stall_seconds,
        }

    def request(self, videos: tuple[AskedVideo, ...], **found: Scalar) -> Request:
        """Return what decides what comes out; `found`: more of it, known only by now."""
        return Request(kind=self.kind, asked={**self.asked(), **found}, videos=videos)

    def asked(self) -> dict[str, Scalar]:
        """Return the options that decide what comes out, by name."""
        damaged = CONCEALED if self.on_error == "conceal" else "left out"
        return {**self._asked(), "damaged": damaged}

    @abstractmethod
    def _asked(self) -> dict[str, Scalar]:
        """Return those that only this kind has."""

    def _means(self) -> dict[str, Scalar]:
        """Return what it is done with, by the names of options."""
        return {"workers": self.workers}
