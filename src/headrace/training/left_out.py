"""What is said of many videos that cannot be used: one error, or one warning, for all of them."""

import sys
import warnings
from collections.abc import Sequence

from headrace.errors import LeftOutWarning, MediaError
from headrace.video.loss import Loss

_MOST_NAMED = 3


def raise_all(errors: Sequence[MediaError], of: str) -> None:
    """Raise the first of some errors, with the names of the next ones and the count of the rest.

    Args:
        errors: Why something cannot be used, one for each; none: nothing is raised.
        of: How many there were, and of what: "11 videos".
    """
    if not errors:
        return
    first, *others = errors
    if not others:
        raise first
    message = f"{first}; and {len(others)} more of {of} cannot be used: {_names(others)}"
    raise type(first)(message, source=first.source, pts=first.pts) from first


def warn_left_out(errors: Sequence[MediaError | Loss], of: str, listed: str = "left_out") -> None:
    """Warn once of what is left out: how many, the first names, and where all are listed.

    Args:
        errors: Why something is left out, one for each; none: nothing is said.
        of: How many there were, and of what: "11 videos".
        listed: The attribute that lists all of them.
    """
    if errors:
        are = "is" if len(errors) == 1 else "are"
        warnings.warn(
            f"{len(errors)} of {of} cannot be used and {are} left out: {_names(errors)}; "
            f"`{listed}` lists all of them, and why",
            LeftOutWarning,
            stacklevel=_frames_of_headrace(),
        )


def _names(errors: Sequence[MediaError | Loss]) -> str:
    names = ", ".join(each.source for each in errors[:_MOST_NAMED])
    more = len(errors) - _MOST_NAMED
    return f"{names} and {more} more" if more > 0 else names


def _frames_of_headrace() -> int:
    """Return how many calls lie between the caller and the code outside headrace, it included."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("headrace."):
        frame, level = frame.f_back, level + 1
    return level
