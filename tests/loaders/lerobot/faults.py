"""Datasets with a fault: what is done to a sound one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def edit_column(path: Path, name: str, edit: Callable[[pa.ChunkedArray], Any]) -> None:
    """Replace a column of a file of rows by values of any type."""
    table = pq.read_table(path)
    values = edit(table.column(name))
    pq.write_table(table.set_column(table.column_names.index(name), name, values), path)


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


def of_features(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Path], Any]:
    def change(folder: Path) -> None:
        features = json.loads((folder / "meta/info.json").read_text("utf-8"))["features"]
        edit(features)
        edit_info(folder, features=features)

    return change


def as_lists(name: str, edit: Callable[[list[Any]], Any]) -> Callable[[Path], Any]:
    """Change the values of a column, and let them be lists of any length."""

    def changed(column: pa.ChunkedArray) -> list[Any]:
        values = column.to_pylist()
        edit(values)
        return [values]

    return lambda folder: edit_column(folder / ROWS, name, changed)


def set_value(name: str, row: int, value: Any) -> Callable[[dict[str, list[Any]]], Any]:
    return lambda columns: columns[name].__setitem__(row, value)


def turn(columns: dict[str, list[Any]]) -> None:
    """Reverse the rows of a file."""
    for values in columns.values():
        values.reverse()


def drop_rows(first: int, stop: int) -> Callable[[dict[str, list[Any]]], Any]:
    def edit(columns: dict[str, list[Any]]) -> None:
        for values in columns.values():
            del values[first:stop]

    return edit


def late(times: list[float]) -> None:
    """Move the timestamps of rows 8 and 9 of the file by 0.05 s."""
    times[8:10] = [time + 0.05 for time in times[8:10]]


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
    "no timestamps": of_features(lambda features: features.pop("timestamp")),
    "no cameras": of_features(lambda features: [*map(features.pop, CAMERAS)]),
    "pictures": of_features(lambda features: features[TOP].update(dtype="image")),
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
    "column missing": of_rows(lambda columns: columns.pop("action")),
    "a row less": of_rows(drop_rows(5, 6)),
    "rows of an unknown episode": of_rows(set_value("episode_index", 20, 9)),
    "a value missing": of_rows(set_value("next.reward", 3, None)),
    "a subtask missing": of_rows(set_value("subtask_index", 3, None)),
    "subtasks by text": lambda folder: [
        edit_column(path, "subtask_index", lambda column: column.cast(pa.string()))
        for path in folder.glob("data/*/*.parquet")
    ],
    "a value of a vector missing": as_lists("count", lambda v: v.__setitem__(3, [1, None])),
    "rows of another length": as_lists(
        "count", lambda v: (v.__setitem__(3, [1, 2, 3]), v.__setitem__(4, [1]))
    ),
    "rows of another shape": of_features(lambda features: features["count"].update(shape=[3])),
    "values of another kind": as_lists("mode", lambda v: v.__setitem__(slice(None), [b"a"] * 21)),
    "an unknown task": of_rows(set_value("task_index", 9, 7)),
    "a video missing": lambda folder: (folder / VIDEO).unlink(),
    "a video of text": lambda folder: (folder / VIDEO).write_text("no video"),
    "a video cut short": lambda folder: cut(folder / VIDEO),
    "timestamps off": of_rows(lambda columns: late(columns["timestamp"])),
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
