"""How long does a library take for every frame of every file, in order?"""

from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.equality import thumbnails
from benchmarks.libs.adapter import Adapter
from benchmarks.resources import Meter, peak_rss_bytes, versions


def answer(
    *, library: str, paths: list[str], size: tuple[int, int], workers: int, pictures: str | None
) -> dict[str, Any]:
    """Time a module of `benchmarks.libs`, or keep its thumbnails in the file `pictures`."""
    files, (height, width) = [Path(path) for path in paths], size
    adapter = cast(Adapter, import_module(f"benchmarks.libs.{library}"))
    if pictures:
        chunks = adapter.every_frame(files, (height, width), workers)
        np.savez(pictures, *thumbnails(chunks, len(files)))
        return {"versions": versions(adapter.PACKAGES)}
    for _ in adapter.every_frame(files[:workers], (height, width), workers):
        pass
    first_seconds: float | None = None
    frames, meter = 0, Meter()
    chunks = adapter.every_frame(files, (height, width), workers)
    for chunk in chunks:
        frames += len(chunk.frames)
        first_seconds = first_seconds or meter.wall_seconds
    return {
        **meter.read(),
        "first_seconds": first_seconds,
        "frames": frames,
        "decoded": getattr(chunks, "decoded_frames", None),
        "peak_rss_bytes": peak_rss_bytes(),
    }
