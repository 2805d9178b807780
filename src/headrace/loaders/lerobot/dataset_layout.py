"""DatasetLayout: where a version of LeRobot keeps the tables and videos of a dataset."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.lerobot.dataset_tables import (
    NOT_A_DATASET,
    Stats,
    as_arrays,
    joined_stats,
    joined_tables,
    parquet_columns,
    read_json,
    read_json_lines,
    read_parquet,
)
from headrace.loaders.lerobot.depth_codes import DepthCodes
from headrace.video.source import is_inside

_JOINED: Final = "v3.0"
"""From this version on, files hold several episodes, and tables are Parquet."""
VERSIONS: Final = (_JOINED, "v2.1", "v2.0")
"""Versions of the layout that are read."""
NEEDED: Final = ("timestamp", "frame_index", "episode_index", "task_index")
"""Columns of every dataset."""

_PATH: Final = re.compile(r"(?:[^{}]|\{[a-z_]+(?::0?\d{1,2}d)?\})+")
"""A path with places as LeRobot writes them: another format could ask for gigabytes."""
_MOST_TASKS: Final = 1_000_000

EpisodeTable = Mapping[str, list[Any]]
"""Column → its value for each episode: `episode_index`, `length`, and where files lie."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Camera:
    """The video files of one camera."""

    key: str
    """Its name in the dataset: `observation.images.laptop`."""
    files: tuple[Path, ...]
    """File of each episode."""
    start_seconds: NDArray[np.float64]
    """float64 [episodes]: time in its file at which each episode starts."""
    end_seconds: NDArray[np.float64]
    """float64 [episodes]: time at which the next one in its file starts; infinite for the last."""
    depth: DepthCodes | None
    """How it keeps depths; None: it shows pictures."""


@dataclass(frozen=True)
class DatasetLayout(ABC):
    """Where a version keeps its tables."""

    root: Path
    info: Mapping[str, Any]
    """Content of `meta/info.json`."""

    @staticmethod
    def of(folder: Path) -> "DatasetLayout":
        """Return the layout of a dataset.

        Raises:
            ConfigError: it has another version, or features that are not read.
        """
        info = read_json(folder / "meta" / "info.json")
        version = info.get("codebase_version")
        if version not in VERSIONS:
            raise ConfigError(
                f"{folder} is a LeRobot dataset of version {version}, and headrace reads "
                f"{', '.join(reversed(VERSIONS))}; convert it with lerobot's scripts"
            )
        if not float(info["fps"]) > 0:
            raise ConfigError(f"{folder} has {info['fps']} frames per second; write the real ones")
        for name in NEEDED:
            if name not in info["features"]:
                raise ConfigError(f"{folder} has no feature {name}, which every dataset has")
        for key, feature in info["features"].items():
            _check_kept(folder, key, feature)
        return (_JoinedFiles if version == _JOINED else _EpisodeFiles)(folder, info)

    @property
    def camera_keys(self) -> list[str]:
        """Features that are videos."""
        features = self.info["features"]
        return [key for key, feature in features.items() if feature["dtype"] == "video"]

    @abstractmethod
    def episodes(self) -> EpisodeTable:
        """Return the table of episodes, by number."""

    @abstractmethod
    def data_files(self, table: EpisodeTable, chosen: NDArray[np.int64]) -> Sequence[Path]:
        """Return the file with the rows of each of the chosen episodes."""

    @abstractmethod
    def camera(self, key: str, table: EpisodeTable, chosen: NDArray[np.int64]) -> Camera:
        """Return the files of a camera."""

    def _file(self, path: str, **values: Any) -> Path:
        """Return a file of the dataset, by a path with places for values. Raises ConfigError."""
        name = path.format(**values) if _PATH.fullmatch(path) else ""
        if not name or not is_inside(name):
            raise ConfigError(
                f"{self.root} keeps files at {path!r:.80}, which is no path in its folder; "
                "get the dataset from a source that you trust"
            )
        return self.root / name

    def _depth(self, key: str) -> DepthCodes | None:
        feature = self.info["features"][key]
        return DepthCodes.of(feature.get("info") or feature.get("video_info") or {})

    @abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """Return the texts that `task_index` counts."""

    def subtasks(self) -> tuple[str, ...]:
        """Return the texts that `subtask_index` counts; empty where there are none."""
        return ()

    def stats(self) -> Stats:
        """Return the statistics of each feature."""
        path = self.root / "meta" / "stats.json"
        return as_arrays(read_json(path)) if path.is_file() else {}


class _JoinedFiles(DatasetLayout):
    """v3.0: files of several episodes."""

    def episodes(self) -> EpisodeTable:
        meta = self.root / "meta" / "episodes"
        files = sorted(meta.glob("*/*.parquet"))
        if not files:
            raise ConfigError(f"{self.root} has no meta/episodes/*/*.parquet; {NOT_A_DATASET}")
        starts = ("episode_index", "length", "data/", "videos/")
        names = [name for name in parquet_columns(files[0]) if name.startswith(starts)]
        tables = [read_parquet(file, names) for file in files]
        table: EpisodeTable = joined_tables(tables, meta).to_pydict()
        order = np.argsort(table["episode_index"])
        return {name: [values[k] for k in order] for name, values in table.items()}

    def data_files(self, table: EpisodeTable, chosen: NDArray[np.int64]) -> Sequence[Path]:
        return self._files("data", self.info["data_path"], table, chosen)

    def camera(self, key: str, table: EpisodeTable, chosen: NDArray[np.int64]) -> Camera:
        of, path = f"videos/{key}", self.info["video_path"]
        starts = np.array(table[f"{of}/from_timestamp"], np.float64)
        ends = np.full(len(starts), np.inf)
        files = zip(table[f"{of}/chunk_index"], table[f"{of}/file_index"], strict=True)
        in_file = sorted(zip(files, starts.tolist(), range(len(starts)), strict=True))
        for (file, _, episode), (next_file, next_start, _) in pairwise(in_file):
            if file == next_file:
                ends[episode] = next_start
        return Camera(
            key=key,
            files=self._files(of, path, table, chosen, video_key=key),
            start_seconds=starts[chosen],
            end_seconds=ends[chosen],
            depth=self._depth(key),
        )

    def tasks(self) -> tuple[str, ...]:
        return self._texts("task")

    def subtasks(self) -> tuple[str, ...]:
        is_there = (self.root / "meta" / "subtasks.parquet").is_file()
        has_them = is_there and "subtask_index" in self.info["features"]
        return self._texts("subtask") if has_them else ()

    def _texts(self, name: str) -> tuple[str, ...]:
        columns = read_parquet(self.root / "meta" / f"{name}s.parquet").to_pydict()
        [texts] = [values for column, values in columns.items() if column != f"{name}_index"]
        return tuple(texts)

    def _files(
        self, of: str, path: str, table: EpisodeTable, chosen: NDArray[np.int64], **names: str
    ) -> tuple[Path, ...]:
        chunks, files = table[f"{of}/chunk_index"], table[f"{of}/file_index"]
        return tuple(
            self._file(path, chunk_index=chunks[k], file_index=files[k], **names)
            for k in chosen.tolist()
        )


class _EpisodeFiles(DatasetLayout):
    """v2.0 and v2.1: a file of each episode."""

    def episodes(self) -> EpisodeTable:
        rows = sorted(self._lines("episodes"), key=lambda row: int(row["episode_index"]))
        return {name: [row[name] for row in rows] for name in ("episode_index", "length")}

    def data_files(self, table: EpisodeTable, chosen: NDArray[np.int64]) -> Sequence[Path]:
        return self._files(self.info["data_path"], table, chosen)

    def camera(self, key: str, table: EpisodeTable, chosen: NDArray[np.int64]) -> Camera:
        return Camera(
            key=key,
            files=tuple(self._files(self.info["video_path"], table, chosen, video_key=key)),
            start_seconds=np.zeros(len(chosen)),
            end_seconds=np.full(len(chosen), np.inf),
            depth=self._depth(key),
        )

    def tasks(self) -> tuple[str, ...]:
        texts = {int(row["task_index"]): str(row["task"]) for row in self._lines("tasks")}
        if max(texts, default=0) > _MOST_TASKS:
            raise ConfigError(
                f"{self.root} has a task {max(texts)}, and at most {_MOST_TASKS} are read; tasks "
                "count from 0"
            )
        return tuple(texts.get(k, "") for k in range(max(texts, default=-1) + 1))

    def stats(self) -> Stats:
        if (self.root / "meta" / "episodes_stats.jsonl").is_file():
            return joined_stats([as_arrays(row["stats"]) for row in self._lines("episodes_stats")])
        return super().stats()

    def _files(
        self, path: str, table: EpisodeTable, chosen: NDArray[np.int64], **names: str
    ) -> list[Path]:
        size = int(self.info.get("chunks_size", 1000))
        numbers = [int(table["episode_index"][k]) for k in chosen.tolist()]
        return [
            self._file(path, episode_chunk=n // size, episode_index=n, **names) for n in numbers
        ]

    def _lines(self, name: str) -> list[Any]:
        return read_json_lines(self.root / "meta" / f"{name}.jsonl")


def _check_kept(folder: Path, key: str, feature: Mapping[str, Any]) -> None:
    """Check that a feature is kept in a way that is read. Raises ConfigError."""
    if feature["dtype"] == "image":
        raise ConfigError(
            f"{folder} keeps {key} as pictures in its tables, not as video; convert it with "
            "lerobot's `lerobot-edit-dataset --operation.type convert_image_to_video`, or read it "
            "with LeRobotDataset"
        )
