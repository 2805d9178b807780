"""How long does planning an extraction take, and what does the plan hold?"""

from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.resources import Meter, peak_rss_bytes
from headrace.decode.index_store import IndexStore
from headrace.extraction.frame_extraction import FrameExtraction
from headrace.extraction.frame_request import FrameOptions
from headrace.extraction.pictures import Pictures
from headrace.sampling.selection import ByRate


def answer(*, paths: list[str], store: str, workers: int) -> dict[str, Any]:
    """Plan one picture a second of each video, with the indexes that the folder `store` has."""
    options = FrameOptions(
        sources=tuple(paths),
        selection=ByRate(Fraction(1)),
        out=Path(store) / "never-made",
        pictures=Pictures(format="jpg"),
        workers=workers,
    )
    before, meter = peak_rss_bytes(), Meter()
    plan = FrameExtraction.prepare(options, store=IndexStore(Path(store))).plan
    return {
        **meter.read(),
        "frames": sum(map(len, plan.indexes.values())),
        "memory_bytes": peak_rss_bytes() - before,
        "written_bytes": len(plan.request.text()),
        "chunks": len(plan.chunks),
    }
