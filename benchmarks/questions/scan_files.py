"""How long does it take to scan files anew?"""

from typing import Any

from benchmarks.resources import Meter
from headrace import StreamIndex


def answer(*, paths: list[str]) -> dict[str, Any]:
    """Scan one after the other, after two that do not count; a file counts as a frame."""
    for path in paths[:2]:
        StreamIndex.scan(path)
    meter = Meter()
    for path in paths:
        StreamIndex.scan(path)
    return {"frames": len(paths), **meter.read()}
