"""Atomic file writes: a file is complete or unchanged."""

import os
from contextlib import suppress
from pathlib import Path

from headrace.errors import ConfigError, reason_of


def write_whole(path: Path, text: str) -> None:
    """Write `text` as UTF-8: see `write_bytes_whole`."""
    write_bytes_whole(path, text.encode("utf-8"))


def write_bytes_whole(path: Path, content: bytes) -> None:
    """Write `content` to a temporary file beside `path`, then rename it to `path`.

    Processes and threads may write one path at the same time; the last one to finish wins. A
    killed process may leave its temporary file; `partial_of(Path("*")).name` matches its name.

    Raises:
        ConfigError: the file cannot be written.
    """
    partial = None
    try:
        partial = _create_partial(path)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        if partial is not None:
            with suppress(OSError):  # the folder was removed, or is read-only
                partial.unlink(missing_ok=True)
        raise ConfigError(
            f"cannot write {path}: {reason_of(error)}; give a folder that can be written to"
        ) from error


def partial_of(path: Path) -> Path:
    """Return the temporary path of a file or folder that only one process writes."""
    return path.with_name(f".{path.name}.partial")


def _create_partial(path: Path) -> Path:
    """Create an empty file, unique among all writers on all machines; return its path."""
    number = 0
    while True:
        partial = partial_of(path.with_name(f"{path.name}.{os.getpid()}-{number}"))
        try:
            partial.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return partial
