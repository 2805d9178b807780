"""Every error headrace raises on purpose.

HeadraceError(Exception)
├─ ConfigError(HeadraceError, ValueError)     an argument or option is invalid
│  ├─ NoLengthError(ConfigError, TypeError)   len() of an endless loader
│  └─ CallError(ConfigError, TypeError)       an unknown argument, or an invalid call
├─ BackendError(HeadraceError, RuntimeError)  a backend or an extra is missing or unfit
├─ MediaError(HeadraceError)                  one source is bad; the only kind a policy may skip
│  ├─ OpenError                               it cannot be opened as video
│  ├─ ScanError                               its packets cannot be indexed
│  └─ DecodeError                             a frame cannot be decoded
├─ StageError(HeadraceError)                  a stage of a pipeline failed
└─ CacheError(HeadraceError)                  a cache cannot be read or written: a miss, and counted

SpillWarning(UserWarning)                     a spill folder cannot be read or written
SkippedVideosWarning(UserWarning)             unusable sources were skipped, as requested

A message names the request, the problem and the remedy.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import dropwhile, takewhile
from textwrap import shorten
from typing import Any


class HeadraceError(Exception):
    """Base of every error headrace raises on purpose; picklable."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how pickle rebuilds the error: without a call of its constructor."""
        return _rebuild, (type(self), self.args, vars(self))


_TRACEBACK = "(most recent call last)"
_MAX_LINES, _MAX_CHARACTERS = 4, 200
"""Max lines to show after a line that ends with a colon, and max characters of each."""
_PREFIX = 3
"""Equal leading letters that make a known name similar."""
_FEW = 8
"""Max names that a message lists completely."""
_MAX_SUGGESTIONS = 3


def in_words(error: BaseException) -> str:
    """Return the type and the message of an error of another library, in one line."""
    return f"{type(error).__name__}: {in_one_line(str(error)) or 'no reason given'}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type if the message is empty."""
    return in_one_line(str(error)) or type(error).__name__


def in_one_line(text: str) -> str:
    """Return the first line of an error's text, or the first line after a traceback.

    A line that ends with a colon ("Error(s) in loading state_dict for Net:") is joined with up to
    four following lines, each shortened.
    """
    lines = text.strip().splitlines()
    tracebacks = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if tracebacks:
        after = lines[tracebacks[-1] + 1 :]
        lines = list(dropwhile(lambda line: not line or line[0].isspace(), after))
    message = lines[0].strip() if lines else ""
    if not message.endswith(":"):
        return message
    details = takewhile(str.strip, lines[1 : 1 + _MAX_LINES])
    return " ".join([message, *(shorten(line, _MAX_CHARACTERS) for line in details)])


def last_words(output: str) -> str:
    """Return the last line of a program's output, or the error after its traceback."""
    return in_one_line(output) if _TRACEBACK in output else output.rstrip().rpartition("\n")[2]


class ConfigError(HeadraceError, ValueError):
    """An argument or option is invalid; the message names the valid ones."""


class NoLengthError(ConfigError, TypeError):
    """`len()` of an endless loader; a TypeError, as Python raises for objects without a length."""


class CallError(ConfigError, TypeError):
    """A call with an argument that does not exist, or in an invalid way."""


class BackendError(HeadraceError, RuntimeError):
    """A backend is missing or unfit; the message names the extra that adds it."""


class MediaError(HeadraceError):
    """One source is bad. The only kind of error that an `on_error` policy may skip."""

    def __init__(self, message: str, *, source: str, pts: int | None = None) -> None:
        super().__init__(message)
        self.source = source
        """The path or URL of the bad source, as the user gave it."""
        self.pts = pts
        """The first affected frame, in ticks of the source's time base; None: all frames."""


class OpenError(MediaError):
    """The source cannot be opened as video."""


class ScanError(MediaError):
    """The packets of the source cannot be indexed."""


class DecodeError(MediaError):
    """Requested frames cannot be decoded."""

    def __init__(
        self, message: str, *, source: str, pts: int | None = None, missing: Sequence[int] = ()
    ) -> None:
        super().__init__(message, source=source, pts=pts)
        self.missing = tuple(missing)
        """Indices of the requested frames that could not be decoded, ascending."""


class StageError(HeadraceError):
    """A stage of a pipeline failed; its exception is the `__cause__`."""

    def __init__(self, message: str, *, stage: str, item: object = None) -> None:
        super().__init__(message)
        self.stage = stage
        """Name of the stage that failed."""
        self.item = item
        """The item that the stage processed."""


class CacheError(HeadraceError):
    """A cache, or one of its entries, cannot be read or written. A miss, and counted."""


class SpillWarning(UserWarning):
    """Frames cannot be read from a spill folder, or stored in it; they are decoded instead.

    Issued once per cause. Silence it with
    `warnings.simplefilter("ignore", headrace.SpillWarning)`.
    """


class SkippedVideosWarning(UserWarning):
    """Unusable sources were skipped, as requested; the message has their number and some names.

    Issued once, by the loader, dataset or reader that opens them. Silence it with
    `warnings.simplefilter("ignore", headrace.SkippedVideosWarning)`.
    """


def reason_of(error: OSError | ValueError) -> str:
    """Return the operating system's reason, in lower case: "permission denied".

    Python raises ValueError for a path with a null byte.
    """
    return (getattr(error, "strerror", None) or str(error)).lower()


@contextmanager
def file_errors(
    request: str,
    remedy: str = "give a folder that can be written to",
    kind: Callable[[str], HeadraceError] = ConfigError,
) -> Iterator[None]:
    """Convert OSErrors of the block to headrace errors.

    `with file_errors(f"cannot read {path}", "give a JSON file"): ...`

    Args:
        request: Operation and file; starts the message.
        remedy: Fix; ends the message.
        kind: Returns the error for a message.
    """
    try:
        yield
    except OSError as error:
        raise kind(f"{request}: {reason_of(error)}; {remedy}") from error


def _rebuild(kind: type[HeadraceError], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


def did_you_mean(
    word: str, known: Iterable[str], *, instead: Sequence[str] = (), cutoff: float = 0.6
) -> str:
    """Return "did you mean a, b?": at most three known words that resemble `word`.

    Args:
        word: The word as typed.
        known: The known words.
        instead: Suggestions if no known word is similar; if empty, the result is empty.
        cutoff: Min similarity, see `difflib.get_close_matches`.
    """
    similar = get_close_matches(word, [*known], n=_MAX_SUGGESTIONS, cutoff=cutoff)
    suggestions = similar or instead[:_MAX_SUGGESTIONS]
    return f"did you mean {', '.join(suggestions)}?" if suggestions else ""


def closest(word: str, known: Iterable[str], *, listed_by: str | None = None) -> str:
    """Return advice for a mistyped name: similar known names, or else all of them.

    Args:
        word: Name as typed.
        known: Known names.
        listed_by: Command that lists the names, for long lists.
    """
    names = sorted(known)
    prefixed = [name for name in names if word and name.startswith(word[:_PREFIX])]
    if advice := did_you_mean(word, names, instead=prefixed):
        return advice
    if listed_by and len(names) > _FEW:
        return f"see `{listed_by}`"
    return f"give one of {', '.join(names)}"
