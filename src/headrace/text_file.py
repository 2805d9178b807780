"""Files that are there whole or not at all."""

from pathlib import Path

from headrace.errors import ConfigError


def write_whole(path: Path, text: str) -> None:
    """Write `text` as UTF-8: see `write_bytes_whole`."""
    write_bytes_whole(path, text.encode("utf-8"))


def write_bytes_whole(path: Path, content: bytes) -> None:
    """Write `content`; what was there stays until all of it is written.

    A process that is killed may leave `partial_of(path)` behind.

    Raises:
        ConfigError: it cannot be written there.
    """
    partial = partial_of(path)
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        _forget(partial)
        raise ConfigError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}; "
            "give a folder that can be written to"
        ) from error


def partial_of(path: Path) -> Path:
    """Return where a file lies while it is written."""
    return path.with_name(f".{path.name}.partial")


def _forget(partial: Path) -> None:
    try:
        partial.unlink(missing_ok=True)
    except OSError:
        return  # the folder is none, or not ours
