"""Totals of the proxies of a folder: size and quality."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.decode.proxies import ProxyRow


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Luma quality relative to the originals, in the size of the proxies."""

    mean: float
    """Mean over all frames, from the means of their videos."""
    worst: float
    """Worst frame."""
    worst_path: str
    """Path of the original with the worst frame."""


@dataclass(frozen=True, kw_only=True)
class ProxyTotals:
    """Totals of all proxies in a folder."""

    proxies: int
    frames: int
    bytes: int
    original_bytes: int
    seconds: float
    """Total seconds to produce them, summed over the workers."""
    psnr: Quality | None
    """Decibel; 100 for equal frames."""
    ssim: Quality | None
    """Up to 1; windows of 8x8. None if all proxies are smaller."""

    @classmethod
    def of(cls, rows: Sequence[ProxyRow]) -> "ProxyTotals | None":
        """Return the totals of `rows`; None without rows."""
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


def _quality(rows: Sequence[ProxyRow], measures: Sequence[Mapping[str, float]]) -> Quality | None:
    pairs = [(row, measure) for row, measure in zip(rows, measures, strict=True) if measure]
    if not pairs:
        return None
    frames = sum(row.frames for row, _ in pairs)
    mean = sum(row.frames * measure["mean"] for row, measure in pairs) / frames
    worst, path = min((measure["worst"], row.path) for row, measure in pairs)
    return Quality(mean=round(mean, 5), worst=worst, worst_path=path)
