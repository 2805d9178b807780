"""Parquet table with a row for each image file."""

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from headrace.atomic_file import write_bytes_whole
from headrace.extraction.extraction_options import RequestedVideo
from headrace.extraction.frame_worker import FrameRow
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import to_seconds

NAME: Final = "frames.parquet"
"""File name in the output folder."""


def write_table(
    path: Path,
    rows: Iterable[tuple[int, FrameRow]],
    indexes: Mapping[int, StreamIndex],
    videos: Sequence[RequestedVideo],
) -> None:
    """Write a row for each image; the file appears complete or not at all. With one version of
    pyarrow, equal rows give equal bytes. Takes about 300 bytes of memory per row.

    Args:
        path: Path of the table.
        rows: Video number and image, in the order of the table.
        indexes: Video number → index.
        videos: Names and paths, by video number.

    Raises:
        ConfigError: the file cannot be written.
    """
    import pyarrow
    import pyarrow.parquet

    records = [_row(videos[video], indexes[video], row) for video, row in rows]
    file = BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(records, schema=_schema()), file, compression="zstd"
    )
    write_bytes_whole(path, file.getvalue())


def _row(video: RequestedVideo, index: StreamIndex, row: FrameRow) -> dict[str, Any]:
    time_base = index.info.time_base
    return {
        "video": _encodable(video.name),
        "path": _encodable(video.path),
        "index": row.index,
        "pts": row.pts,
        "time_base_num": time_base.numerator,
        "time_base_den": time_base.denominator,
        "pts_seconds": float(to_seconds(row.pts, time_base)),
        "is_keyframe": bool(index.is_keyframe[row.index]),
        "is_concealed": row.is_concealed,
        "file": _encodable(row.file),
        "width": row.width,
        "height": row.height,
        "bytes": row.num_bytes,
    }


def _encodable(text: str) -> str:
    """Escape non-UTF-8 bytes of a file name, which a table cannot hold."""
    return text.encode(errors="backslashreplace").decode()


def _schema() -> Any:
    import pyarrow

    return pyarrow.schema(
        [
            *((name, pyarrow.string()) for name in ("video", "path")),
            *((name, pyarrow.int64()) for name in ("index", "pts")),
            *((name, pyarrow.int64()) for name in ("time_base_num", "time_base_den")),
            ("pts_seconds", pyarrow.float64()),
            *((name, pyarrow.bool_()) for name in ("is_keyframe", "is_concealed")),
            ("file", pyarrow.string()),
            *((name, pyarrow.int32()) for name in ("width", "height")),
            ("bytes", pyarrow.int64()),
        ]
    )
