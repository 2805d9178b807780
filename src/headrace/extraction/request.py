"""What was asked of an output folder: a folder holds the answer to one request."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from headrace.profiling.provenance import Scalar
from headrace.records import from_json, recorded, to_json

CONCEALED: Final = "concealed"
"""What a request says of damaged frames that come as FFmpeg shows them."""
_VERSION = 1


@recorded
@dataclass(frozen=True, kw_only=True)
class AskedVideo:
    """One video of a request."""

    name: str
    """What it is called in the folder."""
    path: str
    """Where it lies, from the root on."""
    size: int | None
    mtime_ns: int | None
    """Of the file, as it was when it was first opened; None: it could not be."""
    rate: str | None = None
    """Pictures a second, where it is pictures in order; None: it is a file."""

    @property
    def is_known(self) -> bool:
        """Whether it could be opened."""
        return self.size is not None


@recorded
@dataclass(frozen=True, kw_only=True)
class Request:
    """All that decides what comes out, and nothing else."""

    kind: str
    """`frames`."""
    asked: Mapping[str, Scalar]
    """Options by name."""
    videos: tuple[AskedVideo, ...]
    """In order; a number of a video is a place here."""

    def text(self) -> str:
        """Return it as JSON."""
        return to_json(self, version=_VERSION, indent=1) + "\n"

    @property
    def digest(self) -> str:
        """`sha256:…` of what two requests that go together have in common.

        Sizes and times of files are not in it: one that could not be opened may be there later.
        """
        videos = [
            (video.name, video.path) if video.rate is None else (video.name, video.path, video.rate)
            for video in self.videos
        ]
        text = json.dumps([self.kind, dict(self.asked), videos], sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def conceals(self) -> bool:
        """Whether damaged frames come as FFmpeg shows them."""
        return self.asked["damaged"] == CONCEALED

    @classmethod
    def parse(cls, text: str, file: object = "the request") -> "Request":
        """Return what `text` made.

        Raises:
            ConfigError: it is something else; `file` is where it was read.
        """
        return from_json(cls, text, file=file, version=_VERSION)

    def differences(self, before: "Request") -> Iterator[str]:
        """Yield how this differs from one before, in words; nothing where they go together."""
        if self.kind != before.kind:
            yield f"it holds {before.kind}, not {self.kind}"
            return
        for name in {**before.asked, **self.asked}:
            was, now = before.asked.get(name), self.asked.get(name)
            if was != now:
                yield f"{name} was {_shown(was)}, now {_shown(now)}"
        yield from self._other_videos(before)

    def _other_videos(self, before: "Request") -> Iterator[str]:
        was = [each.path for each in before.videos]
        now = [each.path for each in self.videos]
        new = [path for path in now if path not in was]
        gone = [path for path in was if path not in now]
        if new:
            yield f"{_listed(new)} was not asked for then"
        if gone:
            yield f"{_listed(gone)} is not asked for now"
        if was != now and not new and not gone:
            yield "the videos came in another order"
        if was == now:
            yield from _other_rates(before.videos, self.videos)
            for old, video in zip(before.videos, self.videos, strict=True):
                # One that could not be opened then, or cannot now, has nothing to mix up.
                if old.is_known and video.is_known and replace(old, rate=video.rate) != video:
                    yield f"{video.path} has changed since"


def _other_rates(before: tuple[AskedVideo, ...], videos: tuple[AskedVideo, ...]) -> Iterator[str]:
    for old, video in zip(before, videos, strict=True):
        if old.rate != video.rate:
            yield f"rate of {video.path} was {_shown(old.rate)}, now {_shown(video.rate)}"


def _shown(value: Scalar) -> str:
    return "not set" if value in (None, "") else str(value)


def _listed(paths: list[str]) -> str:
    more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"
