"""What is wrong with a command line, found before PyTorch is imported, which takes long."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import typer

from headrace.errors import ConfigError, HeadraceError, OpenError, file_errors

Typed = TypeVar("Typed")


def checking(check: Callable[[Typed], object]) -> Callable[[Typed | None], Typed | None]:
    """Return the callback of an option: what `check` raises of a value that was typed is usage."""

    def checked(typed: Typed | None) -> Typed | None:
        if typed is not None:
            try:
                check(typed)
            except HeadraceError as error:
                raise typer.BadParameter(str(error)) from error
        return typed

    return checked


def check_cores(text: str) -> None:
    """Raise ConfigError where `text` names no cores, or others than this process may use."""
    from headrace.runtime.affinity import check_available, parse_cores

    check_available(parse_cores(text))


def check_span(text: str) -> None:
    """Raise ConfigError where `text` is no span of time."""
    from headrace.sizes import parse_seconds

    parse_seconds(text)


def check_batch_size(text: str) -> None:
    """Raise ConfigError where `text` is neither a size of a batch nor `auto`."""
    is_number = text.isascii() and text.removeprefix("-").isdigit()
    if text != "auto" and (not is_number or int(text) < 1):
        must = "be >= 1" if is_number else "be a whole number, or auto"
        raise ConfigError(f"must {must}, got {text!r}")


def check_weights(text: str) -> None:
    """Raise ConfigError where `text` is a checkpoint that is not there."""
    if text not in ("DEFAULT", "none"):
        _check_readable(Path(text), "the weights file", "give a checkpoint, DEFAULT or none")


def check_labels(path: Path) -> None:
    """Raise ConfigError where the file of labels is not there."""
    _check_readable(path, "the file of labels", "give a file")


def check_out(folder: Path) -> None:
    """Raise ConfigError where there is something else in the place of a folder of results."""
    from headrace.video.source import refuse_address

    refuse_address(folder, is_output=True)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"cannot write to {folder}: it is no folder; give another one")


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


def _check_readable(path: Path, what: str, advice: str) -> None:
    with file_errors(f"cannot read {what} {path}", advice):
        path.open("rb").close()
