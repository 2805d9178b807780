"""What all proxies of a folder come to: how large they are, and what was lost of the pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.decode.proxies import ProxyRow


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Likeness to the originals, of brightness, at the size of the proxies."""

    mean: float
    """Of all frames, by the means of their videos."""
    worst: float
    """Of a frame."""
    worst_path: str
    """The original that it is of."""


@dataclass(frozen=True, kw_only=True)
class ProxyTotals:
    """Of all proxies in a folder."""

    proxies: int
    frames: int
    bytes: int
    original_bytes: int
    seconds: float
    """That they took to make, one after another."""
    psnr: Quality | None
    """Decibel; 100 stands for equal pictures."""
    ssim: Quality | None
    """Up to 1; windows of 8x8. None where no proxy is as large."""

    @classmethod
    def of(cls, rows: Sequence[ProxyRow]) -> "ProxyTotals | None":
        """Return the totals of these; None where there are none."""
        if not rows:
            return None
        return cls(
            proxies=len(rows),
            frames=sum(row.frames for row in rows),
            bytes=sum(row.bytes for row in rows),
            original_bytes=sum(row.original_bytes for row in rows),
            seconds=round(sum(row.seconds for row in rows), 3),
            psnr=_quality(rows, [row.psnr for row in rows]),
            ssim=_quality(rows, [row.ssim for row in rows]),
        )


def _quality(rows: Sequence[ProxyRow], found: Sequence[Mapping[str, float]]) -> Quality | None:
    known = [(row, each) for row, each in zip(rows, found, strict=True) if each]
    if not known:
        return None
    frames = sum(row.frames for row, _ in known)
    mean = sum(row.frames * each["mean"] for row, each in known) / frames
    worst, path = min((each["worst"], row.path) for row, each in known)
    return Quality(mean=round(mean, 5), worst=worst, worst_path=path)
