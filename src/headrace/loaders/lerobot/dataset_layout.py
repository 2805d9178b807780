"""DatasetLayout: metadata of a LeRobot dataset: tables, paths of rows and videos, depth codes."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError, HeadraceError, file_errors, in_words
from headrace.extras import require
from headrace.video.source import is_inside

DepthUnit = Literal["mm", "m"]
"""Whole millimeters, or meters."""

_CODES: Final = 1 << 12
"""Number of codes."""
_MILLIMETERS: Final = 1000.0
"""Millimeters per meter."""
_MAX_MILLIMETERS: Final = (1 << 16) - 1
"""Max depth in millimeters, as in LeRobot's uint16."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DepthCodes:
    """Encoding of a camera's depths."""

    meters: torch.Tensor
    """float32 [4096]: depth of each code."""
    unit: DepthUnit | None
    """Unit of the camera's statistics; None: not recorded."""

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self | None:
        """Return the codes of a feature, from its `info`; None: not a depth feature.

        Defaults and rounding are those of `dequantize_depth` in lerobot 0.6.1.

        Raises:
            ValueError: a depth has no logarithm, or the unit is unknown.
        """
        if not (facts.get("is_depth_map") or facts.get("video.is_depth_map")):
            return None
        defaults = {"depth_min": 0.01, "depth_max": 10.0, "shift": 3.5}
        low, high, shift = (
            float(facts.get(f"video.{name}", value)) for name, value in defaults.items()
        )
        meters = torch.arange(_CODES, dtype=torch.float32)
        if facts.get("video.use_log", True):
            first, last = math.log(low + shift), math.log(high + shift)
            meters.mul_((last - first) / (_CODES - 1)).add_(first).exp_().sub_(shift)
        else:
            meters.mul_((high - low) / (_CODES - 1)).add_(low)
        unit = facts.get("depth_unit")
        if unit not in (None, *get_args(DepthUnit)):
            raise ValueError(f"depth_unit is {unit!r}")
        return cls(meters=meters.clamp_(low, high), unit=unit)

    def depths(self, codes: torch.Tensor, unit: DepthUnit) -> torch.Tensor:
        """Return the depths of codes, uint16 [..., 1, H, W], as float32 of the same shape."""
        values = self.meters
        if unit == "mm":
            values = (values * _MILLIMETERS).round_().clamp_(0, _MAX_MILLIMETERS)
        depths: NDArray[np.float32] = np.take(values.numpy(), codes.cpu().numpy(), mode="clip")
        return torch.from_numpy(depths).to(codes.device)

    def rescaled(
        self, stats: Mapping[str, NDArray[Any]], unit: DepthUnit
    ) -> Mapping[str, NDArray[Any]]:
        """Return the camera's statistics in `unit`; unchanged if their unit is not recorded."""
        if self.unit in (None, unit):
            return stats
        factor = _MILLIMETERS if unit == "mm" else 1 / _MILLIMETERS
        return {
            name: values if name == "count" else values * factor for name, values in stats.items()
        }


_JOINED: Final = "v3.0"
"""First version whose files hold several episodes, and whose metadata tables are Parquet."""
VERSIONS: Final = (_JOINED, "v2.1", "v2.0")
"""Supported versions of the layout."""
NEEDED: Final = ("timestamp", "frame_index", "episode_index", "task_index")
"""Columns that every dataset has."""
_NUMBERS: Final = ("chunk_index", "file_index")
"""Names of a file's two numbers in tables, and in paths of v3.0."""
_OF_EPISODES: Final = ("episode_chunk", "episode_index")
"""Names of a file's two numbers in paths before v3.0."""

NOT_A_DATASET: Final = (
    "give the folder of a LeRobot dataset, which holds meta/info.json, data and videos"
)
_AGAIN: Final = "download the dataset again"
_PATH: Final = re.compile(r"(?:[^{}]|\{[a-z_]+(?::0?\d{1,2}d)?\}){1,255}")
"""Path with placeholders as LeRobot writes them; any other format spec could produce gigabytes."""
_ERRORS: Final = (
    *(ArithmeticError, AttributeError, LookupError, NotImplementedError),
    *(OSError, RecursionError, TypeError, ValueError),
)
"""Errors of pyarrow and json, and of missing entries and entries of another type."""

Stats = dict[str, dict[str, NDArray[Any]]]
"""Feature → statistic → values."""
EpisodeTable = dict[str, list[Any]]
"""Column → value per episode, in the order of episode numbers. Columns: `episode_index` and
`length`; `chunk_index` and `file_index`, the numbers of a file, with the prefix `data/` for rows
and `videos/KEY/` for each camera; and for cameras `from_timestamp` and `until`, the times in the
file, in seconds, at which the episode and the next one start; infinite for the last."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Camera:
    """Video files of one camera."""

    key: str
    """Feature name: `observation.images.laptop`."""
    files: tuple[Path, ...]
    """File of each episode."""
    start_seconds: NDArray[np.float64]
    """float64 [episodes]: time in the file at which each episode starts."""
    end_seconds: NDArray[np.float64]
    """float64 [episodes]: time at which the next episode in the file starts; infinite for the
    last."""
    depth: DepthCodes | None
    """Encoding of depth; None: color frames."""


@dataclass(frozen=True)
class DatasetLayout:
    """Tables and file paths of a dataset, by its version."""

    root: Path
    info: Mapping[str, Any]
    """Content of `meta/info.json`."""
    is_joined: bool
    """Whether files hold several episodes, and tables are Parquet (v3.0), or each episode has its
    own files."""

    @classmethod
    def of(cls, folder: Path) -> "DatasetLayout":
        """Return the layout of a dataset.

        Raises:
            ConfigError: the version or a feature is not supported.
        """
        info = read_json(folder / "meta" / "info.json")
        version = info.get("codebase_version")
        if version not in VERSIONS:
            raise ConfigError(
                f"{folder} is a LeRobot dataset of version {version}, and headrace reads "
                f"{', '.join(reversed(VERSIONS))}; convert it with lerobot's scripts"
            )
        if not float(info["fps"]) > 0:
            raise ConfigError(f"fps of {folder} must be above 0, got {info['fps']}")
        for name in NEEDED:
            if name not in info["features"]:
                raise ConfigError(f"{folder} has no feature {name}, which every dataset must have")
        for key, feature in info["features"].items():
            if feature["dtype"] == "image":
                raise ConfigError(
                    f"{folder} stores {key} as images in its tables, not as video; convert it "
                    "with lerobot's `lerobot-edit-dataset --operation.type convert_image_to_video`"
                    ", or read it with LeRobotDataset"
                )
        return cls(folder, info, version == _JOINED)

    def episodes(self) -> EpisodeTable:
        """Return the table of all episodes."""
        cameras = [f"videos/{key}" for key in self._camera_keys]
        table = self._joined_episodes(cameras) if self.is_joined else self._episode_lines(cameras)
        return table | {f"{prefix}/until": _next_starts(table, prefix) for prefix in cameras}

    def files(self, prefix: str, path: str, table: EpisodeTable, **names: str) -> tuple[Path, ...]:
        """Return the file of each episode, from a path with placeholders for numbers and names.

        Raises:
            ConfigError: the path is not inside the folder of the dataset.
        """
        placeholders = _NUMBERS if self.is_joined else _OF_EPISODES
        numbers = [*zip(table[f"{prefix}/chunk_index"], table[f"{prefix}/file_index"], strict=True)]
        files = dict[tuple[int, int], Path]()
        for pair in dict.fromkeys(numbers):
            values = names | dict(zip(placeholders, pair, strict=True))
            name = path.format(**values) if _PATH.fullmatch(path) else ""
            if not name or not is_inside(name):
                raise ConfigError(
                    f"{self.root} has the file path {path!r:.80}, which is no path inside its "
                    "folder; get the dataset from a trusted source"
                )
            files[pair] = self.root / name
        return tuple(files[pair] for pair in numbers)

    def cameras(self, table: EpisodeTable) -> tuple[Camera, ...]:
        """Return the cameras and their files."""
        return tuple(self._camera(key, table) for key in self._camera_keys)

    def texts(self) -> dict[str, dict[int, str]]:
        """Return the texts of `task_index`, and of `subtask_index` if the dataset has it."""
        if not self.is_joined:
            lines = read_json(self.root / "meta" / "tasks.jsonl")
            return {"task": {int(line["task_index"]): str(line["task"]) for line in lines}}
        texts = {}
        for name in ("task", "subtask"):
            file = self.root / "meta" / f"{name}s.parquet"
            if name == "task" or (f"{name}_index" in self.info["features"] and file.is_file()):
                columns = read_parquet(file).to_pydict()
                columns.pop(f"{name}_index", None)
                [values] = columns.values()
                texts[name] = dict(enumerate(values))
        return texts

    def stats(self) -> Stats:
        """Return the statistics of each feature; empty if there are none."""
        per_episode = self.root / "meta" / "episodes_stats.jsonl"
        total = per_episode.with_name("stats.json")
        if not self.is_joined and per_episode.is_file():
            return _merge_stats([_as_arrays(line["stats"]) for line in read_json(per_episode)])
        return _as_arrays(read_json(total)) if total.is_file() else {}

    @property
    def _camera_keys(self) -> list[str]:
        features = self.info["features"]
        return [key for key, feature in features.items() if feature["dtype"] == "video"]

    def _joined_episodes(self, cameras: list[str]) -> EpisodeTable:
        meta, columns = self.root / "meta" / "episodes", ["episode_index", "length"]
        columns += [f"{prefix}/{name}" for prefix in ("data", *cameras) for name in _NUMBERS]
        columns += [f"{prefix}/from_timestamp" for prefix in cameras]
        files = sorted(meta.glob("*/*.parquet"))
        if not files:
            raise ConfigError(f"{self.root} has no meta/episodes/*/*.parquet; {NOT_A_DATASET}")
        joined = concat_tables([read_parquet(file, columns) for file in files], meta)
        table: EpisodeTable = joined.sort_by("episode_index").to_pydict()
        return table

    def _episode_lines(self, cameras: list[str]) -> EpisodeTable:
        lines = read_json(self.root / "meta" / "episodes.jsonl")
        lines.sort(key=lambda line: int(line["episode_index"]))
        table = {name: [line[name] for line in lines] for name in ("episode_index", "length")}
        numbers, size = [*map(int, table["episode_index"])], int(self.info.get("chunks_size", 1000))
        for prefix in ("data", *cameras):
            table[f"{prefix}/chunk_index"] = [number // size for number in numbers]
            table[f"{prefix}/file_index"] = numbers
        return table | {f"{prefix}/from_timestamp": [0.0] * len(numbers) for prefix in cameras}

    def _camera(self, key: str, table: EpisodeTable) -> Camera:
        prefix, feature = f"videos/{key}", self.info["features"][key]
        return Camera(
            key=key,
            files=self.files(prefix, self.info["video_path"], table, video_key=key),
            start_seconds=np.array(table[f"{prefix}/from_timestamp"], np.float64),
            end_seconds=np.array(table[f"{prefix}/until"], np.float64),
            depth=DepthCodes.of(feature.get("info") or feature.get("video_info") or {}),
        )


def _next_starts(table: EpisodeTable, prefix: str) -> list[float]:
    """Return the column `until` of a camera."""
    starts = table[f"{prefix}/from_timestamp"]
    until = [inf] * len(starts)
    files = zip(table[f"{prefix}/chunk_index"], table[f"{prefix}/file_index"], strict=True)
    in_files = sorted(zip(files, starts, range(len(starts)), strict=True))
    for (file, _, episode), (next_file, start, _) in pairwise(in_files):
        if file == next_file:
            until[episode] = start
    return until


def _as_arrays(stats: Mapping[str, Mapping[str, Any]]) -> Stats:
    """Return statistics as arrays of at least one dimension."""
    return {
        feature: {name: np.atleast_1d(np.array(value)) for name, value in values.items()}
        for feature, values in stats.items()
    }


def _merge_stats(episodes: Sequence[Stats]) -> Stats:
    """Return the statistics of all episodes together, from the statistics per episode."""
    merged: Stats = {}
    for feature in episodes[0]:
        count, minima, maxima, means, stds = (
            np.stack([episode[feature][name] for episode in episodes])
            for name in ("count", "min", "max", "mean", "std")
        )
        frames = count[:, 0]
        mean = np.average(means, 0, frames)
        variance = np.average(stds**2 + (means - mean) ** 2, 0, frames)
        merged[feature] = {
            "min": minima.min(0),
            "max": maxima.max(0),
            "mean": mean,
            "std": np.sqrt(variance),
            "count": frames.sum(keepdims=True),
        }
    return merged


@contextmanager
def table_errors(problem: str) -> Iterator[None]:
    """Convert errors of json and pyarrow, and of missing or mistyped entries, to ConfigError."""
    try:
        yield
    except HeadraceError:
        raise
    except _ERRORS as error:
        raise ConfigError(f"{problem} ({in_words(error)}); {_AGAIN}") from error


def read_json(path: Path) -> Any:
    """Return the content of a JSON file, or of each line of a .jsonl file.

    Raises:
        ConfigError: the file cannot be read.
    """
    with file_errors(f"cannot read {path}", NOT_A_DATASET):
        text = path.read_text(encoding="utf-8")
    with table_errors(f"{path} is not JSON"):
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(text)


def read_parquet(file: Path, columns: list[str] | None = None, filters: Any = None) -> Any:
    """Read a Parquet file as a pyarrow table.

    Args:
        file: The file.
        columns: Columns to read; None: all.
        filters: Filters of `pyarrow.parquet.read_table`; None: all rows.

    Raises:
        ConfigError: the file cannot be read, or lacks a column.
        BackendError: pyarrow is not installed.
    """
    with require("parquet", "a LeRobot dataset"):
        import pyarrow.parquet
    if not file.is_file():
        raise ConfigError(f"{file} is missing; {_AGAIN}")
    # Given a path, pyarrow's threads may close the file only after it has returned.
    with table_errors(f"cannot read {file}"), file.open("rb") as stream:
        present = pyarrow.parquet.read_schema(stream).names
        for name in columns or ():
            if name not in present:
                raise ConfigError(f"{file} has no column {name}; {_AGAIN}")
        return pyarrow.parquet.read_table(stream, columns=columns, filters=filters)


def concat_tables(tables: Sequence[Any], folder: Path) -> Any:
    """Concatenate tables with the same columns. Raises ConfigError if their types differ."""
    import pyarrow

    with table_errors(f"cannot read {folder}"):
        return pyarrow.concat_tables(tables, promote_options="permissive")
