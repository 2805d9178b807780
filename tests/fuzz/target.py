"""Target: a reader of files that nobody vouches for, as a function of bytes.

A target returns, or raises a `HeadraceError`; everything else is a bug, and so is a run that takes
more memory or time than its bounds.
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
    """Reads an input, with a folder of its own that is kept between inputs."""
    repaired: Callable[[bytes], bytes] = bytes
    """Makes checksums right, so that a change is not found by them alone."""
    head: int = 0
    """First bytes of an input, which say which of several files the rest of it is."""


def call(target: Target, data: bytes, folder: Path) -> None:
    """Run a target on bytes; an error of headrace is an answer."""
    with suppress(HeadraceError):
        target.run(data, folder)


def recorded(*patterns: str) -> list[bytes]:
    """Return the content of recorded files."""
    paths = sorted(path for pattern in patterns for path in RECORDED.glob(pattern))
    assert paths
    return [path.read_bytes() for path in paths]
