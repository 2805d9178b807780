"""Features pooled to one per video, in a Parquet table. Needs pyarrow.

Columns of a CSV file can be joined by name or path of the video.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, reason_of
from headrace.extraction.extraction_options import encodable
from headrace.extraction.features.feature_folder import FeatureFolder, ListedVideo
from headrace.extraction.features.feature_result import VideoName
from headrace.extraction.features.feature_table import METADATA, PATTERN, TableFacts
from headrace.extraction.features.table_store import TableOutput

Pooling = Literal["mean", "max"]
"""Pooling of a video's features, element by element."""
POOLINGS: Final[tuple[Pooling, ...]] = ("mean", "max")


def pool_video(folder: FeatureFolder, name: str, by: Pooling) -> dict[str, Any]:
    """Return the table row of a video: sample counts and the pooled feature, float32 [width].

    The feature is None without a sample. Reads chunk by chunk; sums are in float64.

    Raises:
        ConfigError: a table is damaged, or cannot be read.
    """
    listed = folder.videos[name]
    video = VideoName(name=name, path=listed.path, content=None)
    n = lost = 0
    failed = len(listed.failed)
    pool, dtype = (np.maximum, None) if by == "max" else (np.add, np.float64)
    total: NDArray[Any] | None = None
    for row in folder.rows(name):
        video = row.video
        lost += len(row.lost)
        failed += row.status == "failed"
        if not len(row.samples):
            continue
        n += len(row.samples)
        with np.errstate(invalid="ignore"):  # features, and so their sum, may have NaN or Inf
            chunk = pool.reduce(row.samples.features, axis=0, dtype=dtype)
            total = chunk if total is None else pool(total, chunk)
    feature = total if total is None or by == "max" else total / n
    return {
        "video": video.name,
        "path": video.path,
        "content": video.content,
        "n": n,
        "lost": lost,
        "failed": failed,
        "features": None if feature is None else feature.astype(np.float32).ravel(),
    }


_TEXTS: Final = ("video", "path", "content")
_COUNTS: Final = ("n", "lost", "failed")
"""Count columns: pooled samples, samples without a feature, and failed chunks."""
_GROUP_BYTES: Final = 8 << 20
"""Bytes of features per row group."""


@dataclass(frozen=True, kw_only=True)
class Aggregated:
    """Result of an aggregation."""

    videos: int
    """Rows of the table."""
    empty: tuple[str, ...]
    """Videos without a feature; null in the table."""
    partial: tuple[str, ...]
    """Videos with missing samples or chunks, pooled over the existing samples."""
    unjoined: tuple[str, ...]
    """Videos without a row in the joined file."""
    unmatched: tuple[str, ...] = ()
    """Values of the joined file's key column that match no video."""


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
    import pyarrow

    if by not in POOLINGS:
        raise ConfigError(f"pooling must be {' or '.join(POOLINGS)}, got {by!r}")
    if out.match(PATTERN) and out.absolute().parent == folder.folder.absolute():
        raise ConfigError(f"{out} has the name of a feature table, {PATTERN}; give another name")
    if not any(video.n for video in folder.videos.values()):
        raise ConfigError(f"no video in {folder.folder} has a feature; there is nothing to pool")
    joined, unjoined, unmatched = None, tuple[str, ...](), tuple[str, ...]()
    if labels is not None:
        joined, unjoined, unmatched = join(labels, folder.videos, (*_TEXTS, *_COUNTS, "features"))
    names, empty, partial = list(folder.videos), [], []
    group_rows = max(1, _GROUP_BYTES // (4 * folder.facts.width))
    schema = _schema(folder.facts)
    with TableOutput(out, _joined_schema(schema, folder.facts, by, joined)) as output:
        for start in range(0, len(names), group_rows):
            group = []
            for done, name in enumerate(names[start : start + group_rows], start + 1):
                video = pool_video(folder, name, by)
                group.append(video)
                empty += [] if video["n"] else [name]
                partial += [name] if video["n"] and (video["lost"] or video["failed"]) else []
                on_video(done, len(names))
            columns = pyarrow.Table.from_pylist(group, schema=schema)
            if joined is not None:
                rows = joined.slice(start, len(group))
                for column in rows.column_names:
                    columns = columns.append_column(rows.field(column), rows.column(column))
            output.write(columns)
        output.close()
    return Aggregated(
        videos=len(folder.videos),
        empty=tuple(empty),
        partial=tuple(partial),
        unjoined=unjoined,
        unmatched=unmatched,
    )


def _schema(facts: TableFacts) -> Any:
    import pyarrow

    return pyarrow.schema(
        {
            **dict.fromkeys(_TEXTS, pyarrow.string()),
            **dict.fromkeys(_COUNTS, pyarrow.int32()),
            "features": pyarrow.list_(pyarrow.field("element", pyarrow.float32()), facts.width),
        }
    )


def _joined_schema(schema: Any, facts: TableFacts, by: Pooling, joined: Any) -> Any:
    import pyarrow

    others = [] if joined is None else list(joined.schema)
    metadata = {**json.loads(facts.text()), "pooled_by": by}
    return pyarrow.schema([*schema, *others], metadata={METADATA: json.dumps(metadata).encode()})


_NAMES: Final = ("path", "video", "file", "filename")
"""Possible names of the column that identifies a video."""


def join(
    path: Path, videos: Mapping[str, ListedVideo], taken: Sequence[str]
) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """Return the columns of a CSV file for videos. Types are inferred from the values.

    A row belongs to the video with its name or path, or with its file name if only one video has
    it; a relative path is relative to the folder of the file. Rows of other videos are left out.

    Args:
        path: CSV file; its first line names the columns, one of them path, video, file or filename.
        videos: Name → video.
        taken: Column names that are not allowed.

    Returns:
        pyarrow table with a row for each video, in order, null for videos without a row in the
        file; the names of these videos; and the keys of rows that match no video.

    Raises:
        ConfigError: the file cannot be read, is malformed, has two rows for one video, no row for
            any video, or a column name that is not allowed.
    """
    import pyarrow

    table = _read(path)
    key = next(filter(_is_key, table.column_names), None)
    others = [name for name in table.column_names if name != key]
    if key is None or not others:
        raise ConfigError(
            f"{path} has the columns {', '.join(table.column_names)[:80]}; it must have one named "
            f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}, and another one to join"
        )
    clash = [name for name in others if name in taken or others.count(name) > 1]
    if clash:
        raise ConfigError(f"column {clash[0]} of {path} is already in the table; rename it")
    rows, unmatched = _rows(path, table.column(key).to_pylist(), videos)
    without = tuple(name for name in videos if name not in rows)
    if len(without) == len(videos):
        raise ConfigError(
            f"no row of {path} matches a video; {key} must be a name, such as "
            f"{next(iter(videos), '')}, or a path, such as "
            f"{next((video.path for video in videos.values()), '')}"
        )
    row_numbers = pyarrow.array([rows.get(name) for name in videos], pyarrow.int64())
    return table.select(others).take(row_numbers), without, unmatched


def _is_key(column: str) -> bool:
    return column.strip().lower() in _NAMES


def _read(path: Path) -> Any:
    import pyarrow.csv

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next(csv.reader(file), [])
        # By default, the name 007 would become the number 7.
        keys = {name: pyarrow.string() for name in names if _is_key(name)}
        return pyarrow.csv.read_csv(
            path, convert_options=pyarrow.csv.ConvertOptions(column_types=keys)
        )
    except OSError as error:
        reason = reason_of(error)
        raise ConfigError(f"cannot read {path}: {reason}; give a CSV file") from error
    except (pyarrow.ArrowException, UnicodeDecodeError, csv.Error) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path} is not a CSV file in UTF-8: {reason}") from error


def _rows(
    path: Path, keys: Sequence[str | None], videos: Mapping[str, ListedVideo]
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the row number of each video in the file, from 0, and keys that match no video."""
    by_path = {normpath(video.path): name for name, video in videos.items()}
    files = Counter(Path(path).name for path in by_path)
    by_file = {file: name for path, name in by_path.items() if files[file := Path(path).name] == 1}
    rows: dict[str, int] = {}
    unmatched = []
    for row, key in enumerate(key or "" for key in keys):
        key = key.strip()
        path_of_key = normpath(encodable(str((path.parent / key).absolute()))) if key else ""
        name = key if key in videos else by_path.get(path_of_key, by_file.get(key))
        if name is None:
            unmatched += [key] if key else []
            continue
        if name in rows:
            raise ConfigError(
                f"rows {rows[name] + 1} and {row + 1} of {path} are for the same video {name}; "
                "keep one of them"
            )
        rows[name] = row
    return rows, tuple(unmatched)
