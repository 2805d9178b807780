"""Datasets with a fault: what is done to a sound one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.testing.damage import truncate
from loaders.lerobot.drawn import CAMERAS, write_rows

TOP, WRIST = CAMERAS
ROWS = "data/chunk-001/file-000.parquet"
"""Rows of episodes 0 to 2."""
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
VIDEO = f"videos/{WRIST}/chunk-000/file-001.mp4"
"""Of episodes 2 and 3."""


def edit_rows(path: Path, edit: Callable[[dict[str, list[Any]]], Any]) -> None:
    """Change the columns of a file of rows in place, by name."""
    columns = pq.read_table(path).to_pydict()
    edit(columns)
    write_rows(path, columns)


def edit_table(path: Path, edit: Callable[[dict[str, list[Any]]], Any]) -> None:
    """The same of a file of metadata."""
    columns = pq.read_table(path).to_pydict()
    edit(columns)
    pq.write_table(pa.table(columns), path)


def edit_info(folder: Path, **entries: Any) -> None:
    """Set entries of `meta/info.json`; those that are None go."""
    path = folder / "meta" / "info.json"
    info = {**json.loads(path.read_text("utf-8")), **entries}
    path.write_text(json.dumps({k: v for k, v in info.items() if v is not None}), "utf-8")


def cut(path: Path) -> None:
    """Keep the first half of a file."""
    truncate(path, path, keep_fraction=0.5)


def of_rows(edit: Callable[[dict[str, list[Any]]], Any]) -> Callable[[Path], Any]:
    return lambda folder: edit_rows(folder / ROWS, edit)


def of_episodes(edit: Callable[[dict[str, list[Any]]], Any]) -> Callable[[Path], Any]:
    return lambda folder: edit_table(folder / EPISODES, edit)


def of_info(**entries: Any) -> Callable[[Path], Any]:
    return lambda folder: edit_info(folder, **entries)


def of_feature(name: str, **entries: Any) -> Callable[[Path], Any]:
    def change(folder: Path) -> None:
        features = json.loads((folder / "meta/info.json").read_text("utf-8"))["features"]
        edit_info(folder, features={**features, name: {**features.get(name, {}), **entries}})

    return change


def without_feature(*names: str) -> Callable[[Path], Any]:
    def change(folder: Path) -> None:
        features = json.loads((folder / "meta/info.json").read_text("utf-8"))["features"]
        edit_info(folder, features={k: v for k, v in features.items() if k not in names})

    return change


def without_column(name: str) -> Callable[[Path], Any]:
    def change(folder: Path) -> None:
        table = pq.read_table(folder / ROWS)
        pq.write_table(table.drop_columns([name]), folder / ROWS)

    return change


def in_words(name: str) -> Callable[[Path], Any]:
    """Replace the numbers of a column by text, in all rows."""

    def change(folder: Path) -> None:
        for path in folder.glob("data/*/*.parquet"):
            table = pq.read_table(path)
            texts = table.column(name).cast(pa.string())
            table = table.set_column(table.column_names.index(name), name, texts)
            pq.write_table(table, path)

    return change


def as_lists(name: str, edit: Callable[[list[Any]], Any]) -> Callable[[Path], Any]:
    """Change the values of a column, and let them be lists of any length."""

    def change(folder: Path) -> None:
        table = pq.read_table(folder / ROWS)
        values = table.column(name).to_pylist()
        edit(values)
        position = table.column_names.index(name)
        pq.write_table(table.set_column(position, name, [values]), folder / ROWS)

    return change


def shifted(seconds: float, first: int, stop: int) -> Callable[[Path], Any]:
    """Move the timestamps of rows [first, stop) of the file."""

    def edit(columns: dict[str, list[Any]]) -> None:
        times = np.array(columns["timestamp"], np.float64)
        times[first:stop] += seconds
        columns["timestamp"] = times.tolist()

    return of_rows(edit)


def set_value(name: str, row: int, value: Any) -> Callable[[dict[str, list[Any]]], Any]:
    return lambda columns: columns[name].__setitem__(row, value)


def drop_rows(first: int, stop: int) -> Callable[[dict[str, list[Any]]], Any]:
    def edit(columns: dict[str, list[Any]]) -> None:
        for values in columns.values():
            del values[first:stop]

    return edit


FAULTS: dict[str, Callable[[Path], Any]] = {
    "no info": lambda folder: (folder / "meta/info.json").unlink(),
    "info cut off": lambda folder: cut(folder / "meta/info.json"),
    "info is a list": lambda folder: (folder / "meta/info.json").write_text("[]"),
    "version 4": of_info(codebase_version="v4.0"),
    "no version": of_info(codebase_version=None),
    "no features": of_info(features=None),
    "no fps": of_info(fps=None),
    "fps 0": of_info(fps=0),
    "no video path": of_info(video_path=None),
    "path of another kind": of_info(data_path="data/{number}.parquet"),
    "a path that fills memory": of_info(data_path="data/{chunk_index:>9999999999}.parquet"),
    "a path out of the folder": of_info(video_path="../{video_key}.mp4"),
    "a path from the root": of_info(video_path="/home/{video_key}.mp4"),
    "a path that is too long": of_info(data_path="a" * 5000),
    "info nested too deeply": lambda folder: (folder / "meta/info.json").write_text("[" * 99_999),
    "no timestamps": without_feature("timestamp"),
    "no cameras": without_feature(*CAMERAS),
    "pictures": of_feature(TOP, dtype="image"),
    "no episodes": lambda folder: shutil.rmtree(folder / "meta/episodes"),
    "empty episodes": lambda folder: [
        edit_table(path, lambda columns: [values.clear() for values in columns.values()])
        for path in (folder / "meta/episodes").glob("*/*.parquet")
    ],
    "episodes cut off": lambda folder: cut(folder / EPISODES),
    "no lengths": of_episodes(lambda columns: columns.pop("length")),
    "no places of videos": of_episodes(
        lambda columns: [columns.pop(name) for name in [*columns] if TOP in name]
    ),
    "stats cut off": lambda folder: cut(folder / "meta/stats.json"),
    "no tasks": lambda folder: (folder / "meta/tasks.parquet").unlink(),
    "one task": lambda folder: edit_table(
        folder / "meta/tasks.parquet", lambda columns: [v.pop() for v in columns.values()]
    ),
    "rows cut off": lambda folder: cut(folder / ROWS),
    "no rows": lambda folder: (folder / ROWS).unlink(),
    "no data": lambda folder: shutil.rmtree(folder / "data"),
    "column missing": without_column("action"),
    "a row less": of_rows(drop_rows(5, 6)),
    "rows of an unknown episode": of_rows(set_value("episode_index", 20, 9)),
    "a value missing": of_rows(set_value("next.reward", 3, None)),
    "a subtask missing": of_rows(set_value("subtask_index", 3, None)),
    "subtasks by text": in_words("subtask_index"),
    "a value of a vector missing": as_lists("count", lambda v: v.__setitem__(3, [1, None])),
    "rows of another length": as_lists(
        "count", lambda v: (v.__setitem__(3, [1, 2, 3]), v.__setitem__(4, [1]))
    ),
    "rows of another shape": of_feature("count", shape=[3]),
    "values of another kind": as_lists("mode", lambda v: v.__setitem__(slice(None), [b"a"] * 21)),
    "an unknown task": of_rows(set_value("task_index", 9, 7)),
    "a video missing": lambda folder: (folder / VIDEO).unlink(),
    "a video of text": lambda folder: (folder / VIDEO).write_text("no video"),
    "a video cut short": lambda folder: cut(folder / VIDEO),
    "timestamps off": shifted(0.05, 8, 10),
    "a timestamp that is none": of_rows(set_value("timestamp", 9, float("nan"))),
    "frames counted wrong": of_rows(set_value("frame_index", 9, 7)),
    "more frames by the metadata": of_info(total_frames=30),
}
OF_LINES: dict[str, Callable[[Path], Any]] = {
    "lines cut off": lambda folder: truncate(
        folder / "meta/episodes.jsonl", folder / "meta/episodes.jsonl", keep_fraction=0.4
    ),
    "no lines": lambda folder: (folder / "meta/episodes.jsonl").unlink(),
    "a line of another kind": lambda folder: (folder / "meta/tasks.jsonl").write_text("7"),
    "a task of a large number": lambda folder: (folder / "meta/tasks.jsonl").write_text(
        '{"task_index": 1000000000000, "task": "wait"}'
    ),
    "no lines of tasks": lambda folder: (folder / "meta/tasks.jsonl").unlink(),
    "statistics of nothing": lambda folder: (folder / "meta/episodes_stats.jsonl").write_text(
        '{"stats": {"action": {"mean": [0]}}}'
    ),
    "an episode's rows missing": lambda folder: (
        folder / "data/chunk-000/episode_000002.parquet"
    ).unlink(),
}
"""The same of v2.1."""


def with_fault(folder: Path, name: str) -> Path:
    """Damage a dataset in place, and return its folder."""
    (FAULTS | OF_LINES)[name](folder)
    return folder
