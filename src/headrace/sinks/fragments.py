"""The fragments of an MP4 that was left unfinished: what of it plays is kept, the rest cut off."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_HEAD: Final = 8
_LONG_HEAD: Final = 16


def keep_whole_fragments(path: Path) -> bool:
    """Cut a fragmented MP4 behind its last whole fragment; say whether there is one.

    Reads the heads of its boxes only.
    """
    with path.open("r+b") as file:
        whole = max((end for kind, end in _boxes(file) if kind == b"mdat"), default=0)
        if whole:
            file.truncate(whole)
    return whole > 0


def _boxes(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yield kind and end of each whole box at the top."""
    length = file.seek(0, os.SEEK_END)
    start = 0
    while start + _HEAD <= length:
        file.seek(start)
        head = file.read(_LONG_HEAD)
        size, kind = struct.unpack(">I4s", head[:_HEAD])
        if size == 1 and len(head) == _LONG_HEAD:
            (size,) = struct.unpack(">Q", head[_HEAD:])
        if size < _HEAD or start + size > length:
            return
        start += size
        yield kind, start
