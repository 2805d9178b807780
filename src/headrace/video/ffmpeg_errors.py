"""FFmpeg errors: exceptions of PyAV translated to errors of headrace, with their cause.

with translate_errors(OpenError, source, "open"):
    container = av.open(...)
"""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError, MediaError


@contextmanager
def translate_errors(kind: type[MediaError], source: object, doing: str) -> Iterator[None]:
    """Raise any other exception from inside as a `kind` that names `source`.

    Args:
        kind: The error to raise.
        source: The file, as the user gave it.
        doing: The operation as a verb: "open", "read the packets of".

    Raises:
        MediaError: of `kind`, with the exception as its cause.
    """
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise kind(
            f"cannot {doing} {source}: {describe(error)} ({type(error).__name__}); "
            "leave the file out, or re-encode it",
            source=str(source),
        ) from error


def describe(error: Exception) -> str:
    """Return FFmpeg's message of an error, in lower case, without its number or path."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
