"""Files that appear whole or not at all."""

from pathlib import Path

from headrace.errors import ConfigError


def write_whole(path: Path, text: str) -> None:
    """Write a text to a file, in place of what was there; a failure leaves that as it was.

    Raises:
        ConfigError: it cannot be written there.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ConfigError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}; "
            "give a folder that can be written to"
        ) from error
