"""What is in a file, as one short text: two files of the same digest hold the same."""

import hashlib
from pathlib import Path
from typing import Final

WHOLE_BYTES: Final = 256 << 20
"""Up to which a file is read to its end: 0.2 s where it lies in memory, 2 s on a slow disk."""
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 1 << 20


def content_digest(path: Path, *, whole_bytes: int = WHOLE_BYTES) -> str | None:
    """Return `sha256:…` of all bytes of a file, or `sampled-sha256:…` of a larger one.

    The 64 digits of the first are those of `sha256sum`.

    Of a larger file its size counts and 64 pieces of 1 MiB, spread evenly from the first byte to
    the last: enough to tell videos apart, not to find one changed byte. Read it after a run, never
    before, or the run finds the file in memory. Not the `content_id` of a source, which looks at
    three places only, so that it can be asked for often.

    Args:
        path: The file.
        whole_bytes: The largest size that is read to the end.

    Returns:
        None where the file cannot be read (any more).
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            size = file.seek(0, 2)
            if size <= whole_bytes:
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256")
                return f"sha256:{digest.hexdigest()}"
            digest.update(str(size).encode())
            for k in range(_SAMPLES):
                file.seek(k * max(0, size - _SAMPLE_BYTES) // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
    except OSError:
        return None
    return f"sampled-sha256:{digest.hexdigest()}"
