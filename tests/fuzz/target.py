"""Fuzz target: a reader of untrusted files, as a function of bytes.

A target returns or raises a `HeadraceError`. Any other exception is a bug, and so is a run that
exceeds its bounds of memory or time.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError

RECORDED = Path(__file__).parents[1] / "surface" / "recorded"


@dataclass(frozen=True)
class Target:
    """One reader."""

    seeds: Callable[[], list[bytes]]
    """Valid inputs."""
    run: Callable[[bytes, Path], None]
    """Reads an input; the folder belongs to the target and is kept between inputs."""
    repaired: Callable[[bytes], bytes] = bytes
    """Corrects the checksums of an input, so that they do not reveal every change."""
    head: int = 0
    """Number of first bytes of an input, which select the file that the rest belongs to."""


def call(target: Target, data: bytes, folder: Path) -> None:
    """Run a target on bytes; a `HeadraceError` is a valid outcome."""
    with suppress(HeadraceError):
        target.run(data, folder)


def recorded(*patterns: str) -> list[bytes]:
    """Return the content of recorded files."""
    paths = sorted(path for pattern in patterns for path in RECORDED.glob(pattern))
    assert paths
    return [path.read_bytes() for path in paths]
