"""Features pooled to one per video, in a Parquet table. Needs pyarrow."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.extraction.features.feature_folder import FeatureFolder
from headrace.extraction.features.feature_result import VideoName
from headrace.extraction.features.feature_table import PATTERN, TableOutput
from headrace.extraction.features.table_columns import METADATA, TableFacts
from headrace.extraction.features.table_join import JoinedColumns, join

Pooling = Literal["mean", "max"]
"""Pooling of a video's features, element by element."""
POOLINGS: Final[tuple[Pooling, ...]] = ("mean", "max")


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledVideo:
    """One video with its pooled feature."""

    video: VideoName
    n: int
    """Pooled samples."""
    lost: int
    """Samples without a feature, without failed chunks."""
    failed: int
    """Failed chunks."""
    feature: NDArray[np.float32] | None
    """float32 [...]; None if the video has no feature."""


def pooled(folder: FeatureFolder, name: str, by: Pooling) -> PooledVideo:
    """Return the pooled feature of a video, read chunk by chunk. Sums are exact to float64.

    Raises:
        ConfigError: a table is damaged, or cannot be read.
    """
    listed = folder.videos[name]
    video = VideoName(name=name, path=listed.path, content=None)
    n = lost = 0
    failed = len(listed.failed)
    total: NDArray[Any] | None = None
    for row in folder.rows(name):
        video = row.video
        lost += len(row.lost)
        failed += row.status == "failed"
        if not len(row.samples):
            continue
        n += len(row.samples)
        pooled_chunk = _of_chunk(row.samples.features, by)
        total = pooled_chunk if total is None else _joined(total, pooled_chunk, by)
    feature = total if total is None or by == "max" else total / n
    return PooledVideo(
        video=video,
        n=n,
        lost=lost,
        failed=failed,
        feature=None if feature is None else feature.astype(np.float32),
    )


def _of_chunk(features: NDArray[Any], by: Pooling) -> NDArray[Any]:
    pooled: NDArray[Any]
    with np.errstate(invalid="ignore"):  # features, and so their sum, may have NaN or Inf
        pooled = features.max(axis=0) if by == "max" else features.sum(axis=0, dtype=np.float64)
    return pooled


def _joined(first: NDArray[Any], second: NDArray[Any], by: Pooling) -> NDArray[Any]:
    joined: NDArray[Any]
    with np.errstate(invalid="ignore"):
        joined = np.maximum(first, second) if by == "max" else first + second
    return joined


_COLUMNS: Final = ("video", "path", "content", "n", "lost", "failed", "features")
_GROUP_BYTES: Final = 8 << 20
"""Bytes of features per row group."""


@dataclass(frozen=True, kw_only=True)
class Aggregated:
    """Result of an aggregation."""

    videos: int
    """Rows of the table."""
    empty: tuple[str, ...]
    """Videos without a feature; their row has a null."""
    partial: tuple[str, ...]
    """Videos with missing samples or chunks, pooled over the existing samples."""
    unjoined: tuple[str, ...]
    """Videos without a row in the joined file."""


def aggregate(
    folder: FeatureFolder,
    out: Path,
    by: Pooling = "mean",
    *,
    labels: Path | None = None,
    on_video: Callable[[int, int], None] = lambda done, of: None,
) -> Aggregated:
    """Write a table with a row for each video: its pooled feature, and columns of a CSV file.

    Reads chunk by chunk: about 150 MB of memory, for videos of any length.

    Args:
        folder: Folder of the features.
        out: The new Parquet file; it appears complete or not at all.
        by: `mean` or `max` of each element.
        labels: CSV file whose columns are joined by name or path of the video: see `join`.
        on_video: Called with the number of finished videos and their total.

    Raises:
        ConfigError: the table exists or cannot be written, the labels do not fit, no video has a
            feature, or a table of features is damaged.
    """
    if by not in POOLINGS:
        raise ConfigError(f"features are pooled by {' or '.join(POOLINGS)}, got {by!r}")
    if out.match(PATTERN) and out.absolute().parent == folder.folder.absolute():
        raise ConfigError(f"{out} would be taken for a table of features; give another name")
    if not any(video.n for video in folder.videos.values()):
        raise ConfigError(f"no video in {folder.folder} has a feature; there is nothing to pool")
    joined = None if labels is None else join(labels, folder.videos, _COLUMNS)
    empty, partial = [], []
    names = list(folder.videos)
    group_rows = max(1, _GROUP_BYTES // (4 * folder.facts.width))
    with TableOutput(out, _schema(folder.facts, by, joined)) as output:
        for start in range(0, len(names), group_rows):
            group = []
            for done, name in enumerate(names[start : start + group_rows], start + 1):
                video = pooled(folder, name, by)
                group.append(video)
                empty += [] if video.n else [name]
                partial += [name] if video.n and (video.lost or video.failed) else []
                on_video(done, len(names))
            columns = _columns(group, folder.facts)
            if joined is not None:
                rows = joined.columns.slice(start, len(group))
                for column in rows.column_names:
                    columns = columns.append_column(rows.field(column), rows.column(column))
            output.write(columns)
        output.close()
    return Aggregated(
        videos=len(folder.videos),
        empty=tuple(empty),
        partial=tuple(partial),
        unjoined=() if joined is None else joined.without,
    )


def _schema(facts: TableFacts, by: Pooling, joined: JoinedColumns | None) -> Any:
    import pyarrow

    fields = list(_columns([], facts).schema)
    fields += [] if joined is None else list(joined.columns.schema)
    known = {**json.loads(facts.text()), "pooled_by": by}
    return pyarrow.schema(fields, metadata={METADATA: json.dumps(known).encode()})


def _columns(rows: Sequence[PooledVideo], facts: TableFacts) -> Any:
    import pyarrow

    text, integer = pyarrow.string(), pyarrow.int32()
    feature = pyarrow.list_(pyarrow.field("element", pyarrow.float32()), facts.width)
    flat = [None if row.feature is None else row.feature.ravel() for row in rows]
    return pyarrow.table(
        {
            "video": pyarrow.array([row.video.name for row in rows], text),
            "path": pyarrow.array([row.video.path for row in rows], text),
            "content": pyarrow.array([row.video.content for row in rows], text),
            **{
                name: pyarrow.array([getattr(row, name) for row in rows], integer)
                for name in ("n", "lost", "failed")
            },
            "features": pyarrow.array(flat, feature),
        }
    )
