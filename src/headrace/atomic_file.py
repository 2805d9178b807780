"""Atomic writes: a file is complete, or unchanged."""

import os
from contextlib import suppress
from pathlib import Path

from headrace.errors import ConfigError, reason_of


def write_whole(path: Path, text: str) -> None:
    """Write `text` as UTF-8: see `write_bytes_whole`."""
    write_bytes_whole(path, text.encode("utf-8"))


def write_bytes_whole(path: Path, content: bytes) -> None:
    """Write `content`; the old file stays until all of it is written.

    Any number of processes and threads may write one path at a time: the last to end wins; each
    writes a temporary file beside it. A process that is killed may leave that file, under a name
    that `partial_of(Path("*")).name` matches.

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
            with suppress(OSError):  # the folder is gone, or not writable
                partial.unlink(missing_ok=True)
        raise ConfigError(
            f"cannot write {path}: {reason_of(error)}; give a folder that can be written to"
        ) from error


def partial_of(path: Path) -> Path:
    """Return the temporary path of a file or folder that a single process writes."""
    return path.with_name(f".{path.name}.partial")


def _create_partial(path: Path) -> Path:
    """Create and return an empty file that no other writer uses, on any machine."""
    number = 0
    while True:
        partial = partial_of(path.with_name(f"{path.name}.{os.getpid()}-{number}"))
        try:
            partial.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return partial
