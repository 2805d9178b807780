"""Files that are there whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from headrace.errors import ConfigError, reason_of


def write_whole(path: Path, text: str) -> None:
    """Write `text` as UTF-8: see `write_bytes_whole`."""
    write_bytes_whole(path, text.encode("utf-8"))


def write_bytes_whole(path: Path, content: bytes) -> None:
    """Write `content`; what was there stays until all of it is written.

    Any number of processes and threads may write one path at a time: the last to end has it, and
    each begins a file of its own beside it. A process that is killed may leave that behind, under
    a name that `partial_of(Path("*")).name` matches.

    Raises:
        ConfigError: it cannot be written there.
    """
    partial = None
    try:
        partial = _claimed(path)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        _forget(partial)
        raise ConfigError(
            f"cannot write {path}: {reason_of(error)}; give a folder that can be written to"
        ) from error


def partial_of(path: Path) -> Path:
    """Return where a file or folder lies while it is written, where only one process may."""
    return path.with_name(f".{path.name}.partial")


def _claimed(path: Path) -> Path:
    """Return an empty file that is nobody else's, on whatever machine."""
    number = 0
    while True:
        partial = partial_of(path.with_name(f"{path.name}.{os.getpid()}-{number}"))
        try:
            partial.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return partial


def _forget(partial: Path | None) -> None:
    if partial is not None:
        with suppress(OSError):  # the folder is gone, or not ours
            partial.unlink(missing_ok=True)
