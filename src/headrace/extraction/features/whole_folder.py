"""A folder that appears with all its files, or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import ConfigError, file_errors
from headrace.runtime.lock import file_lock
from headrace.text_file import partial_of


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder to write to, which becomes `out` when the block ends well.

    What a process that was killed left of it is removed by the next one.

    Raises:
        ConfigError: `out` holds something, another process is writing it, or it cannot be written.
    """
    whole = out.absolute()
    place = partial_of(whole)
    with file_errors(f"cannot write {out}", "give a folder that can be written to with -o"):
        if whole.exists() and any(whole.iterdir()):
            raise ConfigError(f"{out} holds something; give a new or an empty folder with -o")
        place.mkdir(exist_ok=True)
        with file_lock(place / "lock") as is_ours:
            if not is_ours:
                raise ConfigError(
                    f"another process is writing {out}; wait until it is done, or give another "
                    "folder with -o"
                )
            try:
                files = place / "files"
                shutil.rmtree(files, ignore_errors=True)
                files.mkdir()
                yield files
                files.replace(whole)
            finally:
                shutil.rmtree(place, ignore_errors=True)
