"""How long does a command take to make features of videos, from nothing to all tables?"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from benchmarks.extracting.model import NAME, WIDTH
from benchmarks.resources import Meter

_LOOPS = {"bare": "bare_features", "one_by_one": "one_by_one"}


def answer(
    *, way: str, paths: list[str], weights: str, rate: int, cache: str, kept: str | None
) -> dict[str, Any]:
    """Time a command, `headrace` or a loop; with `kept`, keep the features of all in that file.

    The folder of indexes and of the cache is the user's: XDG_CACHE_HOME of this process.
    """
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        if way == "headrace":
            command = [sys.executable, "-m", "headrace", "extract", "features", *paths]
            command += ["-o", str(out), "--model-name", NAME, "--weights", weights]
            command += ["--fps", str(rate), "--cache", cache, "--json"]
        else:
            out.mkdir()
            command = [sys.executable, "-m", f"benchmarks.extracting.{_LOOPS[way]}"]
            command += [weights, str(rate), str(out), *paths]
        meter = Meter()
        subprocess.run(command, check=True, capture_output=True, env={**os.environ})
        spent = meter.read()
        found = features(out)
        if kept:
            np.save(kept, found)
        return {**spent, "frames": len(found)}


def features(out: Path) -> NDArray[np.float32]:
    """Return all features of a folder, float32 [N, 1280], in the order of videos and frames."""
    if arrays := sorted(out.glob("*.npy")):
        return np.concatenate([np.load(each) for each in arrays])
    rows = [
        row
        for table in sorted(out.glob("features-*.parquet"))
        for row in pyarrow.parquet.read_table(table, columns=["chunk_id", "features"]).to_pylist()
    ]
    rows.sort(key=lambda row: str(row["chunk_id"]))
    return np.array([each for row in rows for each in row["features"]], np.float32).reshape(
        -1, WIDTH
    )
