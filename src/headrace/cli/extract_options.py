"""Extraction options whose command-line form differs from the configuration field."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.config_flags import option
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.sampling.selection import Selection
    from headrace.video.frame_format import Crop

SELECTION: Final = (
    option(
        "fps",
        str | None,
        None,
        "Select the frame shown at each multiple of 1/FPS seconds, such as 0.5 or 1/3.",
    ),
    option("every", int | None, None, "Select every N-th frame; 1 means all.", min=1),
    option("keyframes", bool, False, "Select keyframes; no other frame is decoded.", "--keyframes"),
    option("at", str | None, None, "Select the frames shown at these seconds, such as 1.5,3.0."),
)
"""Options that select frames; each extraction needs exactly one."""
CROP: Final = option(
    "crop",
    str | None,
    None,
    "Crop each frame before resizing, in pixels, such as 256x456+10+20.",
    metavar="HxW+TOP+LEFT",
)
ESTIMATE: Final = option(
    "dry_run",
    bool,
    False,
    "Estimate number, size and duration of the output; write nothing.",
    "--dry-run",
)


def selection_of(typed: dict[str, Any]) -> "Selection":
    """Return the frame selection given by one of the options of `SELECTION`.

    Raises:
        ConfigError: none or several of the options are given, or a value is not a number.
    """
    from headrace.sampling import selection

    given = [
        name for name in ("fps", "every", "at", "keyframes") if typed[name] not in (None, False)
    ]
    if len(given) != 1:
        flags = "--fps, --every, --keyframes, --at"
        raise ConfigError(
            f"give one of {flags} (--every 1: all frames); got {len(given) or 'none'}"
        )
    [name] = given
    try:
        return selection.selection_of(name if name == "keyframes" else f"{name} {typed[name]}")
    except ConfigError as error:
        if isinstance(error.__cause__, ConfigError):
            raise error.__cause__ from None
        form = "numbers separated by commas" if name == "at" else "a number, such as 0.5 or 1/3"
        raise ConfigError(f"--{name} must be {form}, got {typed[name]!r}") from None


def crop_of(typed: dict[str, Any]) -> "Crop | None":
    """Return the crop of `--crop`; None without the option."""
    from headrace.video.frame_format import Crop

    return None if typed["crop"] is None else Crop.parse(typed["crop"])


def sources_of_files(typed: dict[str, Any], noun: str) -> tuple[str, ...]:
    """Return the paths of the videos; with `--framerate`, of image folders and patterns.

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
        raise ConfigError(f"cannot extract {noun} from a live source: {error}") from error
    paths = find_videos(sources) if rate is None else map(Path, sources)
    return tuple(map(str, paths))
