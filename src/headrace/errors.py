"""Every error headrace raises on purpose.

HeadraceError(Exception)
├─ ConfigError(HeadraceError, ValueError)     the caller asked for something impossible
│  ├─ NoLengthError(ConfigError, TypeError)   the length of what never ends was asked for
│  └─ CallError(ConfigError, TypeError)       called in a way that there is not
├─ BackendError(HeadraceError, RuntimeError)  a backend or an extra is missing or unfit
├─ MediaError(HeadraceError)                  one source is bad; the only kind a policy may skip
│  ├─ OpenError                               it cannot be opened as video
│  ├─ ScanError                               its packets cannot be indexed
│  └─ DecodeError                             a frame cannot be decoded
├─ StageError(HeadraceError)                  a stage of a pipeline failed
└─ CacheError(HeadraceError)                  a cache cannot be read or written: a miss, and counted

SkippedVideosWarning(UserWarning)             unusable sources were skipped, as requested

A message says what was asked, what was found and what to do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import dropwhile, takewhile
from textwrap import shorten
from typing import Any


class HeadraceError(Exception):
    """Base of every error headrace raises on purpose. Goes to other processes whole."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how another process makes it again: without the arguments of its constructor."""
        return _again, (type(self), self.args, vars(self))


_TRACEBACK = "(most recent call last)"
_MOST_LINES, _MOST_CHARACTERS = 4, 200


def in_words(error: BaseException) -> str:
    """Return an error of another library in one line: its kind, and what it says."""
    return f"{type(error).__name__}: {in_one_line(str(error)) or 'no reason given'}"


def first_line(error: BaseException) -> str:
    """Return what an error says in one line; its kind, where it says nothing."""
    return in_one_line(str(error)) or type(error).__name__


def in_one_line(text: str) -> str:
    """Return what the text of an error says, in one line: the first one.

    Behind a traceback, it is the first line behind it. A line that ends with a colon announces
    what follows ("Error(s) in loading state_dict for Net:"), up to four lines, each shortened.
    """
    lines = text.strip().splitlines()
    traced = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if traced:
        behind = lines[traced[-1] + 1 :]
        lines = list(dropwhile(lambda line: not line or line[0].isspace(), behind))
    said = lines[0].strip() if lines else ""
    if not said.endswith(":"):
        return said
    follow = takewhile(str.strip, lines[1 : 1 + _MOST_LINES])
    return " ".join([said, *(shorten(line, _MOST_CHARACTERS) for line in follow)])


def last_words(output: str) -> str:
    """Return what the output of a program ends with, in one line: its error, or its last line."""
    return in_one_line(output) if _TRACEBACK in output else output.rstrip().rpartition("\n")[2]


class ConfigError(HeadraceError, ValueError):
    """The caller asked for something impossible; the message says what is possible."""


class NoLengthError(ConfigError, TypeError):
    """The length of what never ends was asked for; a TypeError, as Python has it then."""


class CallError(ConfigError, TypeError):
    """Something was called with an argument, or in a way, that it does not have."""


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


class SkippedVideosWarning(UserWarning):
    """Unusable sources were skipped, as requested: their number, the first names, the full list.

    Given once, by the loader, dataset or reader that opens them. Silence it by
    `warnings.simplefilter("ignore", headrace.SkippedVideosWarning)`.
    """


def reason_of(error: OSError) -> str:
    """Return the reason that the operating system gives, in lower case: "permission denied"."""
    return (error.strerror or str(error)).lower()


@contextmanager
def file_errors(
    asked: str,
    cure: str = "give a folder that can be written to",
    kind: Callable[[str], HeadraceError] = ConfigError,
) -> Iterator[None]:
    """Around work on a file: what the system says against it is raised as an error of ours.

    `with file_errors(f"cannot read {path}", "give a JSON file"): ...`

    Args:
        asked: What was asked, and of which file.
        cure: What to do.
        kind: Makes the error of its message.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{asked}: {reason_of(error)}; {cure}") from error


def _again(kind: type[HeadraceError], args: tuple[Any, ...], facts: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    vars(error).update(facts)
    return error
