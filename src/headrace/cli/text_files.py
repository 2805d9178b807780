"""Text files that commands read and write where the user says."""

from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8. Raises ConfigError if that is not possible."""
    from headrace.errors import ConfigError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; give another path") from error


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file. Raises ConfigError if that is not possible."""
    from headrace.errors import ConfigError

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}; give a JSON file") from error
