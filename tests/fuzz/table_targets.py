"""Fuzz targets: tables from users and other programs."""

import io
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fuzz.target import RECORDED, Target
from headrace import CameraLayout, CameraTimes, HeadraceError, Manifest, MomentTable
from headrace.decode.torchcodec_decoder import from_frame_mappings
from headrace.loaders.lerobot.dataset_folder import DatasetFolder
from headrace.runs.retrain.frame_labels import read_labels

_ROWS = [
    {"path": "a.mp4", "label": "one", "start_seconds": 0.5, "end_seconds": "2", "weight": 1},
    {"path": "b/c.mp4", "label": "two", "start_seconds": 1, "end_seconds": "7/2", "weight": 0.5},
]
_TIMES = {"day": {"front": [0.0, 0.1], "left": [0.05, 0.2]}}
_OF_CLIPS = [
    {"clip": "day", "camera": "front", "frame": n, "seconds": n / 10, "x": 1.5} for n in range(3)
]


def _as_csv(rows: list[dict[str, Any]]) -> bytes:
    lines = [rows[0], *(row.values() for row in rows)]
    return "\n".join(",".join(map(str, line)) for line in lines).encode()


def _as_lines(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def _as_parquet(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({name: [str(row[name]) for row in rows] for name in rows[0]}), file)
    return file.getvalue()


_SUFFIXES = (".csv", ".jsonl", ".parquet", ".json", ".txt")


def _table_seeds() -> list[bytes]:
    """Return the number of a suffix with the content of a file."""
    seeds = []
    for rows in (_ROWS, _OF_CLIPS):
        written = (_as_csv(rows), _as_lines(rows), _as_parquet(rows))
        seeds += [bytes([number]) + content for number, content in enumerate(written)]
    mappings = {"frames": [{"pts": 0, "duration": 512, "key_frame": 1}] * 2}
    documents = [_TIMES, {"videos": {"day": 5, "night": 3}}, mappings]
    seeds += [b"\3" + json.dumps(document).encode() for document in documents]
    return [*seeds, b"\4a.mp4 one\nb/c.mp4 two words\n# nothing\n"]


def _run_table(data: bytes, folder: Path) -> None:
    """Read a file with every reader of tables."""
    path = folder / f"table{_SUFFIXES[(data or b'0')[0] % len(_SUFFIXES)]}"
    path.write_bytes(data[1:])
    for read in (Manifest.read, CameraTimes.read, MomentTable.read, CameraLayout.read, read_labels):
        with suppress(HeadraceError):
            read(path)
    from_frame_mappings(data[1:].decode(errors="replace"))


@cache
def _lerobot_files(version: str) -> dict[str, bytes]:
    """Return the tables of a dataset: path → content."""
    root = RECORDED / "lerobot"
    paths = sorted(path for path in root.rglob("*") if path.suffix in (".json", ".parquet"))
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    if version == "v3.0":
        return files
    lines = {
        "episodes": b'{"episode_index": 0, "tasks": ["a"], "length": 9}',
        "tasks": b'{"task_index": 0, "task": "a"}\n{"task_index": 1, "task": "b"}\n'
        b'{"task_index": 2, "task": "c"}',
        "episodes_stats": b'{"episode_index": 0, "stats": {"action": {"min": [0], "max": [1], '
        b'"mean": [0.5], "std": [0.1], "count": [9]}}}',
    }
    info = files["meta/info.json"].replace(b"v3.0", b"v2.1")
    for path in ("data", "videos/{video_key}"):
        new = f"{path}/{{episode_chunk:03d}}-{{episode_index:06d}}.parquet"
        old = f"{path}/chunk-{{chunk_index:03d}}/file-{{file_index:03d}}"
        info = info.replace(old.encode(), new.removesuffix(".parquet").encode())
    rows = pq.read_table(io.BytesIO(files["data/chunk-001/file-000.parquet"]))
    of_first = rows.filter(pc.equal(rows["episode_index"], 0))
    file = io.BytesIO()
    pq.write_table(of_first, file)
    return {
        "data/000-000000.parquet": file.getvalue(),
        "meta/info.json": info,
        **{f"meta/{name}.jsonl": text for name, text in lines.items()},
    }


def _lerobot_seeds() -> list[bytes]:
    """Return the numbers of a version and of a file, with its content."""
    return [
        bytes([of, number]) + content
        for of, version in enumerate(("v3.0", "v2.1"))
        for number, content in enumerate(_lerobot_files(version).values())
    ]


def _run_lerobot(data: bytes, folder: Path) -> None:
    of, number = (data[:2] + bytes(2))[:2]
    version = ("v3.0", "v2.1")[of % 2]
    root = folder / version
    if not root.exists():
        for name, content in _lerobot_files(version).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
    files = _lerobot_files(version)
    name = [*files][number % len(files)]
    (root / name).write_bytes(data[2:])
    try:
        opened = DatasetFolder.open(root)
        for camera in opened.cameras:
            assert all(file.is_relative_to(root) for file in camera.files)
            assert not any(".." in file.parts for file in camera.files)
        _ = opened.fps, len(opened), opened.name(0), opened.features
    finally:
        (root / name).write_bytes(files[name])


TABLES = {
    "table": Target(_table_seeds, _run_table, head=1),
    "lerobot": Target(_lerobot_seeds, _run_lerobot, head=2),
}
