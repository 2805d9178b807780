"""From the flags that say which frames to the selection they mean."""

from fractions import Fraction
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.sampling.selection import Selection

CHOICES: Final = "--fps, --every, --keyframes, --at"


def refuse_streams(sources: list[str], what: str) -> None:
    """Raise ConfigError where a source is an address, not a file; `what`: is extracted."""
    from headrace.errors import ConfigError
    from headrace.video.source import refuse_address

    try:
        for source in sources:
            refuse_address(source)
    except ConfigError as error:
        raise ConfigError(f"{what} are extracted from files: {error}") from error


def selection_of_flags(
    fps: str | None, every: int | None, at: str | None, *, is_keyframes: bool
) -> "Selection":
    """Return the selection that one of the flags tells of.

    Raises:
        ConfigError: none does, or several do, or what stands behind it is no number.
    """
    from headrace.errors import ConfigError
    from headrace.sampling.selection import AtTimes, ByRate, EveryNth, Keyframes

    given = [each for each in (fps, every, at, is_keyframes or None) if each is not None]
    if len(given) != 1:
        found = "got none" if not given else f"got {len(given)} of them"
        raise ConfigError(f"say which frames by one of {CHOICES} (--every 1: all); {found}")
    if fps is not None:
        return ByRate(_number(fps, "--fps"))
    if every is not None:
        return EveryNth(every)
    if at is not None:
        return AtTimes(tuple(_number(each, "--at") for each in at.split(",")))
    return Keyframes()


def _number(text: str, flag: str) -> Fraction:
    from headrace.errors import ConfigError

    try:
        return Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        how = "numbers with commas between them" if flag == "--at" else "a number, as 0.5 or 1/3"
        raise ConfigError(f"{flag} takes {how}, got {text!r}") from None
