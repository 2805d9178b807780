"""What is wrong with a command line, found before PyTorch is imported, which takes long."""

from collections.abc import Iterable
from pathlib import Path

from headrace.errors import HeadraceError, OpenError


def check_videos(paths: Iterable[str | Path]) -> None:
    """Raise OpenError where none of the videos can be opened; some may be left out later."""
    from headrace.video.source import Source

    first: HeadraceError | None = None
    for path in paths:
        try:
            Source(Path(path)).fingerprint()
        except HeadraceError as error:
            first = first or error
        else:
            return
    if first is not None:
        raise first


def check_present(paths: Iterable[str]) -> None:
    """Raise OpenError where a picture, video or folder is not there, but for addresses."""
    for path in paths:
        if "://" not in path and not Path(path).exists():
            raise OpenError(
                f"cannot open {path}: no such file or directory; give a picture, a video or a "
                "folder",
                source=path,
            )
