"""Text files that are there whole or not at all."""

from pathlib import Path

from headrace.errors import ConfigError


def write_whole(path: Path, text: str) -> None:
    """Write `text` as UTF-8; what was there stays until all of it is written.

    Raises:
        ConfigError: it cannot be written there.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        _forget(partial)
        raise ConfigError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}; "
            "give a folder that can be written to"
        ) from error


def _forget(partial: Path) -> None:
    try:
        partial.unlink(missing_ok=True)
    except OSError:
        return  # the folder is none, or not ours
