"""Text files that commands read where the user says."""

from pathlib import Path


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file. Raises ConfigError if that is not possible."""
    from headrace.errors import ConfigError

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}; give a JSON file") from error
