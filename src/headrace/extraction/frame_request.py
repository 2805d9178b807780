"""Frames of videos as pictures: what may be asked, and what of it decides what comes out."""

from dataclasses import dataclass, field
from pathlib import Path

from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError
from headrace.extraction.pictures import Pictures
from headrace.extraction.request import AskedVideo, Request
from headrace.profiling.provenance import Scalar
from headrace.runtime.affinity import available_cores
from headrace.sampling.selection import Selection
from headrace.sizes import check_integers

KIND = "frames"
_STALL_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class FrameOptions:
    """Which frames of which videos, as what pictures, and how it is done.

    Raises:
        ConfigError: a value is out of range, or there is no video.
    """

    sources: tuple[str, ...]
    """Paths of videos; one that is named twice is read once."""
    selection: Selection
    """Which frames of each."""
    out: Path
    """Folder of the pictures: a new one, or one that was begun with the same request."""
    pictures: Pictures = field(default_factory=Pictures)
    workers: int | None = None
    """Processes that decode and encode; None means one for each core this process may use. The
    result is the same with any number."""
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

    def configuration(self) -> dict[str, Scalar]:
        """Return all of it, by the names of options."""
        return {
            "sources": ",".join(self.sources),
            **_asked(self),
            "out": str(self.out),
            "workers": self.workers,
            "on_error": self.on_error,
            "retry": self.retry,
            "stall_seconds": self.stall_seconds,
        }

    def request(self, videos: tuple[AskedVideo, ...]) -> Request:
        """Return what decides the pictures."""
        return Request(kind=KIND, asked=_asked(self), videos=videos)


def _asked(options: FrameOptions) -> dict[str, Scalar]:
    pictures = options.pictures
    return {
        "frames": str(options.selection),
        "format": pictures.format,
        "quality": pictures.quality_in_force,
        "size": None if pictures.size is None else "x".join(map(str, pictures.size)),
        "prefix": pictures.prefix,
        "damaged": "concealed" if options.on_error == "conceal" else "left out",
    }


def pictures_of(request: Request) -> Pictures:
    """Return the pictures that a request is for."""
    asked = request.asked
    size, quality = asked["size"], asked["quality"]
    height, width = (0, 0) if size is None else map(int, str(size).split("x"))
    return Pictures(
        format=asked["format"],  # type: ignore[arg-type]
        quality=None if quality is None else int(quality),
        size=None if size is None else (height, width),
        prefix=str(asked["prefix"]),
    )


def conceals_of(request: Request) -> bool:
    """Return whether damaged frames come as FFmpeg shows them."""
    return request.asked["damaged"] == "concealed"
