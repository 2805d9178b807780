"""Proxies: what may be asked, and what of it decides what comes out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, get_args

from headrace.errors import ConfigError
from headrace.extraction.options import ExtractionOptions
from headrace.extraction.proxies.codecs import Codec
from headrace.extraction.proxies.size import ProxySize, ShorterSide, proxy_size
from headrace.extraction.request import Request
from headrace.profiling.provenance import Scalar
from headrace.sizes import check_counts

_GOP: Final = 8
_MOST_GOP: Final = 600


@dataclass(frozen=True, kw_only=True)
class ProxyOptions(ExtractionOptions):
    """Proxies of which videos, of what size and GOP, and how they are made.

    A damaged video is left out as a whole, unless `on_error` is "conceal".
    """

    kind: ClassVar[str] = "proxies"
    size: ProxySize = field(default_factory=lambda: ShorterSide(256))
    """Of the proxies."""
    gop: int | None = None
    """Frames from one keyframe to the next; None: 8, or 1 where the codec has keyframes only."""
    codec: Codec = "h264"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.codec not in get_args(Codec):
            raise ConfigError(
                f"codec must be one of {', '.join(get_args(Codec))}, got {self.codec!r}"
            )
        if self.gop is not None:
            if self.codec == "mjpeg" and self.gop != 1:
                raise ConfigError(
                    f"every frame of mjpeg is a keyframe, so gop must be 1 or not given, got "
                    f"{self.gop}"
                )
            check_counts(1, _MOST_GOP, gop=self.gop)

    @property
    def gop_in_force(self) -> int:
        """Frames from one keyframe to the next."""
        return self.gop or (1 if self.codec == "mjpeg" else _GOP)

    def _asked(self) -> dict[str, Scalar]:
        return {"size": str(self.size), "gop": self.gop_in_force, "codec": self.codec}


def originals_of(found: Iterable[Path], out: Path) -> tuple[str, ...]:
    """Return the videos among files that were found, without those in the folder of the proxies.

    So a folder of videos may hold its proxies, too.

    Raises:
        ConfigError: all of them lie there.
    """
    own, videos = out.absolute(), list(found)
    originals = tuple(str(path) for path in videos if own not in path.absolute().parents)
    if videos and not originals:
        raise ConfigError(
            f"all videos that were given lie in {out}, where the proxies would go; give another "
            "folder with -o"
        )
    return originals


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the proxies of a request are made."""

    size: ProxySize
    gop: int
    codec: Codec
    conceals: bool
    """Whether damaged frames come as FFmpeg shows them."""

    @classmethod
    def of(cls, request: Request) -> "Recipe":
        """Return what a request asks for."""
        asked = request.asked
        return cls(
            size=proxy_size(str(asked["size"])),
            gop=int(str(asked["gop"])),
            codec=asked["codec"],  # type: ignore[arg-type]
            conceals=request.conceals,
        )
