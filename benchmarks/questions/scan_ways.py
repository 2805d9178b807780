"""How long do new files take to scan: one after the other, by threads, as a loader opens them?"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from headrace import IndexStore, StreamIndex
from headrace.training.video_set import VideoSet


def answer(*, paths: list[str], way: str) -> dict[str, Any]:
    """Return seconds."""
    for path in paths[:2]:
        StreamIndex.scan(path)
    with TemporaryDirectory() as folder:
        store = IndexStore(Path(folder))
        began = perf_counter()
        if way == "loader":
            VideoSet.open(paths, store=store)
        else:
            with ThreadPoolExecutor(2 if way == "threads" else 1) as pool:
                list(pool.map(StreamIndex.scan, paths))
        return {"seconds": perf_counter() - began}
