"""Options shared by commands of extraction whose typed value is no field of a configuration."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.config_flags import option
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.sampling.selection import Selection
    from headrace.video.frame_format import Crop

SELECTION: Final = (
    option("fps", str | None, None, "What is shown at each multiple of 1/FPS seconds; 0.5 or 1/3."),
    option("every", int | None, None, "Every N-th frame; 1 is all of them.", min=1),
    option("keyframes", bool, False, "Keyframes: nothing else is decoded.", "--keyframes"),
    option("at", str | None, None, "What is shown at these seconds: 1.5,3.0."),
)
"""Options that select frames; one of them is given."""
CROP: Final = option(
    "crop",
    str | None,
    None,
    "Cut this out of each frame first, in pixels, such as 256x456+10+20.",
    metavar="HxW+TOP+LEFT",
)
ENDING: Final = (
    option("dry_run", bool, False, "Say how many, how large and how long.", "--dry-run"),
    option("json", bool, False, "Print JSON.", "--json"),
)


def selection_of(typed: dict[str, Any]) -> "Selection":
    """Return the frames that one of the options of `SELECTION` selects.

    Raises:
        ConfigError: none or several are given, or a value is no number.
    """
    from headrace.sampling import selection

    given = [
        name for name in ("fps", "every", "at", "keyframes") if typed[name] not in (None, False)
    ]
    if len(given) != 1:
        found = "got none" if not given else f"got {len(given)} of them"
        flags = "--fps, --every, --keyframes, --at"
        raise ConfigError(f"give one of {flags} (--every 1: all frames); {found}")
    [name] = given
    try:
        return selection.selection_of(name if name == "keyframes" else f"{name} {typed[name]}")
    except ConfigError as error:
        if isinstance(error.__cause__, ConfigError):
            raise error.__cause__ from None
        how = "numbers with commas between them" if name == "at" else "a number, as 0.5 or 1/3"
        raise ConfigError(f"--{name} takes {how}, got {typed[name]!r}") from None


def is_selected(typed: dict[str, Any]) -> bool:
    """Whether an option of `SELECTION` is given."""
    return any(typed[parameter.name] for parameter in SELECTION)


def crop_of(typed: dict[str, Any]) -> "Crop | None":
    """Return what `--crop` cuts out of frames; None means nothing."""
    from headrace.video.frame_format import Crop

    return None if typed["crop"] is None else Crop.parse(typed["crop"])


def sources_of_files(typed: dict[str, Any], noun: str) -> tuple[str, ...]:
    """Return the paths of the videos; with `--rate`, those of image folders and patterns.

    Raises:
        ConfigError: a source is an address, or a folder or list holds no video.
    """
    from headrace.video.find_videos import find_videos
    from headrace.video.source import refuse_address

    sources, rate = typed["sources"], typed.get("rate")
    try:
        for source in sources:
            refuse_address(source)
    except ConfigError as error:
        raise ConfigError(f"{noun} are extracted from files: {error}") from error
    paths = find_videos(sources) if rate is None else map(Path, sources)
    return tuple(map(str, paths))
