"""A lock of a folder that ends with the process that holds it, however that ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path, *, is_shared: bool = False, waits: bool = False) -> Iterator[bool]:
    """Hold a lock while the block runs; yield whether it is held.

    Args:
        path: The file that is locked; made if it is missing. Nothing is written to it.
        is_shared: Whether others may hold it too, if they share it as well.
        waits: Whether to wait until it is free; else it is not held where another process has it.

    Raises:
        OSError: the file cannot be made, or its file system knows no locks.
    """
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        try:
            fcntl.flock(number, kind if waits else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(number)
