"""Every error headrace raises on purpose.

HeadraceError(Exception)
├─ ConfigError(HeadraceError, ValueError)     the caller asked for something impossible
│  └─ NoLengthError(ConfigError, TypeError)   the length of what never ends was asked for
├─ BackendError(HeadraceError, RuntimeError)  a backend or an extra is missing or unfit
├─ MediaError(HeadraceError)                  one source is bad; the only kind a policy may skip
│  ├─ OpenError                               it cannot be opened as video
│  ├─ ScanError                               its packets cannot be indexed
│  └─ DecodeError                             a frame cannot be decoded
├─ StageError(HeadraceError)                  a stage of a pipeline failed
└─ CacheError(HeadraceError)                  a cache cannot be read or written: a miss, and counted

A message says what was asked, what was found and what to do.
"""

from collections.abc import Sequence
from typing import Any


class HeadraceError(Exception):
    """Base of every error headrace raises on purpose. Goes to other processes whole."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how another process makes it again: without the arguments of its constructor."""
        return _again, (type(self), self.args, vars(self))


def in_words(error: BaseException) -> str:
    """Return an error of somebody else's in one line: its kind, and the first line it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"


def first_line(error: BaseException) -> str:
    """Return the first line that an error says; its kind, where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class ConfigError(HeadraceError, ValueError):
    """The caller asked for something impossible; the message says what is possible."""


class NoLengthError(ConfigError, TypeError):
    """The length of what never ends was asked for; a TypeError, as Python has it then."""


class BackendError(HeadraceError, RuntimeError):
    """A backend is missing or unfit; the message names the extra that adds it."""


class MediaError(HeadraceError):
    """One source is bad. The only kind of error that an `on_error` policy may skip."""

    def __init__(self, message: str, *, source: str, pts: int | None = None) -> None:
        super().__init__(message)
        self.source = source
        """The path or URL of the bad source, as the user gave it."""
        self.pts = pts
        """The first frame it concerns, in ticks of the source's time base; None: all of them."""


class OpenError(MediaError):
    """The source cannot be opened as video."""


class ScanError(MediaError):
    """The packets of the source cannot be indexed."""


class DecodeError(MediaError):
    """Frames that were asked for cannot be decoded."""

    def __init__(
        self, message: str, *, source: str, pts: int | None = None, missing: Sequence[int] = ()
    ) -> None:
        super().__init__(message, source=source, pts=pts)
        self.missing = tuple(missing)
        """Indices of the frames that were asked for and could not be decoded, ascending."""


class StageError(HeadraceError):
    """A stage of a pipeline failed; `__cause__` is what it raised."""

    def __init__(self, message: str, *, stage: str, item: object = None) -> None:
        super().__init__(message)
        self.stage = stage
        """Name of the stage that failed."""
        self.item = item
        """The item it was working on."""


class CacheError(HeadraceError):
    """A cache, or an entry of it, cannot be read or written. Treated as a miss, and counted."""


def _again(kind: type[HeadraceError], args: tuple[Any, ...], facts: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    vars(error).update(facts)
    return error
