"""The one door to FFmpeg: what it raises on a file's account leaves as our error, with its cause.

with at_the_door(OpenError, source, "open"):
    container = av.open(...)
"""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError, MediaError


@contextmanager
def at_the_door(kind: type[MediaError], source: object, doing: str) -> Iterator[None]:
    """Turn whatever is raised inside, and is not ours, into a `kind` that names `source`.

    Args:
        kind: What it becomes.
        source: The file, as the user gave it.
        doing: What was asked of it, as a verb: "open", "read the packets of".

    Raises:
        MediaError: of that kind, with what was raised as its cause.
    """
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise kind(
            f"cannot {doing} {source}: {describe(error)} ({type(error).__name__}, from below "
            "headrace); leave the file out, or encode it anew",
            source=str(source),
        ) from error


def describe(error: Exception) -> str:
    """Return FFmpeg's own words for an error, without number, path or context."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
