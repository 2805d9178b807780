"""A table of whole videos: one feature each, with what else is known of them. Needs pyarrow."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.extraction.features.feature_result import VideoName
from headrace.extraction.features.folder import FeatureFolder
from headrace.extraction.features.table import PATTERN, TableOutput
from headrace.extraction.features.table_columns import METADATA, TableFacts
from headrace.extraction.features.table_join import JoinedColumns, join

Pooling = Literal["mean", "max"]
"""How features of a video become one, number by number."""
POOLINGS: Final[tuple[Pooling, ...]] = ("mean", "max")


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledVideo:
    """One video as one feature."""

    video: VideoName
    n: int
    """Samples it was pooled over."""
    lost: int
    """Samples that were asked for and did not come, without those of chunks that failed."""
    failed: int
    """Chunks that failed as a whole."""
    feature: NDArray[np.float32] | None
    """float32 [...]; None where there was no sample."""


def pooled(folder: FeatureFolder, name: str, by: Pooling) -> PooledVideo:
    """Return one feature for a video; reads it chunk by chunk. Sums are exact to float64.

    Raises:
        ConfigError: a table is damaged, or cannot be read.
    """
    listed = folder.videos[name]
    video = VideoName(name=name, path=listed.path, content=None)
    n = lost = 0
    failed = len(listed.failed)
    so_far: NDArray[Any] | None = None
    for row in folder.rows(name):
        video = row.video
        lost += len(row.lost)
        failed += row.status == "failed"
        if not len(row.samples):
            continue
        n += len(row.samples)
        found = _of_chunk(row.samples.features, by)
        so_far = found if so_far is None else _joined(so_far, found, by)
    feature = so_far if so_far is None or by == "max" else so_far / n
    return PooledVideo(
        video=video,
        n=n,
        lost=lost,
        failed=failed,
        feature=None if feature is None else feature.astype(np.float32),
    )


def _of_chunk(features: NDArray[Any], by: Pooling) -> NDArray[Any]:
    found: NDArray[Any]
    with np.errstate(invalid="ignore"):  # a feature may be infinite, or none; so is what it gives
        found = features.max(axis=0) if by == "max" else features.sum(axis=0, dtype=np.float64)
    return found


def _joined(first: NDArray[Any], second: NDArray[Any], by: Pooling) -> NDArray[Any]:
    found: NDArray[Any]
    with np.errstate(invalid="ignore"):
        found = np.maximum(first, second) if by == "max" else first + second
    return found


_COLUMNS: Final = ("video", "path", "content", "n", "lost", "failed", "features")
_GROUP_BYTES: Final = 8 << 20
"""Of features that are written together."""


@dataclass(frozen=True, kw_only=True)
class Aggregated:
    """What became of the videos."""

    videos: int
    """Rows of the table."""
    empty: tuple[str, ...]
    """Videos without a feature: their row has none."""
    partial: tuple[str, ...]
    """Videos of which samples or chunks are missing: pooled over the others."""
    unjoined: tuple[str, ...]
    """Videos that the joined file says nothing of."""


def aggregate(
    folder: FeatureFolder,
    out: Path,
    by: Pooling = "mean",
    *,
    labels: Path | None = None,
    on_video: Callable[[int, int], None] = lambda done, of: None,
) -> Aggregated:
    """Write a row for each video: its features pooled to one, and what a CSV file says of it.

    Reads chunk by chunk: some 150 MB of memory, however long the videos are.

    Args:
        folder: Where the features are.
        out: The Parquet file; it appears whole.
        by: `mean`, or `max`: of each number the greatest.
        labels: A CSV file whose columns are joined by name or path of the video: see `join`.
        on_video: Is told how many videos are done, of how many.

    Raises:
        ConfigError: the table is there already or cannot be written, the labels do not fit, no
            video has a feature, or a table of features is damaged.
    """
    if by not in POOLINGS:
        raise ConfigError(f"features are pooled by {' or '.join(POOLINGS)}, got {by!r}")
    if out.match(PATTERN) and out.absolute().parent == folder.folder.absolute():
        raise ConfigError(f"{out} would be taken for a table of features; give another name")
    if not any(video.n for video in folder.videos.values()):
        raise ConfigError(f"no video in {folder.folder} has a feature; there is nothing to pool")
    joined = None if labels is None else join(labels, folder.videos, _COLUMNS)
    empty, partial = [], []
    with TableOutput(out, _schema(folder.facts, by, joined)) as output:
        rows = _Rows(output, folder.facts, joined)
        for done, name in enumerate(folder.videos, 1):
            found = pooled(folder, name, by)
            rows.add(found)
            empty += [] if found.n else [name]
            partial += [name] if found.n and (found.lost or found.failed) else []
            on_video(done, len(folder.videos))
        rows.flush()
        output.close()
    return Aggregated(
        videos=len(folder.videos),
        empty=tuple(empty),
        partial=tuple(partial),
        unjoined=() if joined is None else joined.without,
    )


class _Rows:
    """Rows that wait until there are enough to write."""

    def __init__(
        self, output: TableOutput, facts: TableFacts, joined: JoinedColumns | None
    ) -> None:
        self._output = output
        self._most = max(1, _GROUP_BYTES // (4 * facts.width))
        self._facts = facts
        self._joined = joined
        self._waiting: list[PooledVideo] = []
        self._written = 0

    def add(self, row: PooledVideo) -> None:
        self._waiting.append(row)
        if len(self._waiting) >= self._most:
            self.flush()

    def flush(self) -> None:
        count = len(self._waiting)
        if count:
            columns = _columns(self._waiting, self._facts)
            if self._joined is not None:
                more = self._joined.columns.slice(self._written, count)
                for name in more.column_names:
                    columns = columns.append_column(more.field(name), more.column(name))
            self._output.write(columns)
            self._written += count
            self._waiting = []


def _schema(facts: TableFacts, by: Pooling, joined: JoinedColumns | None) -> Any:
    import pyarrow

    fields = list(_columns([], facts).schema)
    fields += [] if joined is None else list(joined.columns.schema)
    known = {**json.loads(facts.text()), "pooled_by": by}
    return pyarrow.schema(fields, metadata={METADATA: json.dumps(known).encode()})


def _columns(rows: Sequence[PooledVideo], facts: TableFacts) -> Any:
    import pyarrow

    text, whole = pyarrow.string(), pyarrow.int32()
    feature = pyarrow.list_(pyarrow.field("element", pyarrow.float32()), facts.width)
    flat = [None if row.feature is None else row.feature.ravel() for row in rows]
    return pyarrow.table(
        {
            "video": pyarrow.array([row.video.name for row in rows], text),
            "path": pyarrow.array([row.video.path for row in rows], text),
            "content": pyarrow.array([row.video.content for row in rows], text),
            **{
                name: pyarrow.array([getattr(row, name) for row in rows], whole)
                for name in ("n", "lost", "failed")
            },
            "features": pyarrow.array(flat, feature),
        }
    )
