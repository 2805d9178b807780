"""DatasetFolder: metadata, rows and video files of a LeRobot dataset, as they lie in its folder."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError, file_errors, first_line
from headrace.extras import require
from headrace.units import check_counts

_VERSIONS: Final = ("v2.0", "v2.1", "v3.0")
"""Versions of the layout that are read."""
_JOINED: Final = "v3.0"
"""From this version on, files hold several episodes, and tables are Parquet."""
_NOT_A_DATASET: Final = (
    "give the folder of a LeRobot dataset, which holds meta/info.json, data and videos"
)
_INDEX_COLUMN: Final = "task_index"


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
    """float64 [episodes]: time at which it ends by the metadata; NaN where they do not tell."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetFolder:
    """A LeRobot dataset, v2.0 to v3.0: E episodes, and M rows, one for each moment of them."""

    root: Path
    info: Mapping[str, Any]
    """Content of `meta/info.json`."""
    episodes: NDArray[np.int64]
    """int64 [E], ascending: numbers of the episodes."""
    row_start: NDArray[np.int64]
    """int64 [E + 1]: first row of each episode; last, the number of rows."""
    columns: Mapping[str, torch.Tensor | list[str]]
    """Column → [M, ...], as LeRobot makes tensors of them: int64, bool, or the default float."""
    cameras: tuple[Camera, ...]
    tasks: tuple[str, ...]
    """Texts that `task_index` counts."""
    subtasks: tuple[str, ...]
    """Texts that `subtask_index` counts; empty: the dataset has none."""
    stats: Mapping[str, Mapping[str, NDArray[Any]]]
    """Feature → statistic → its values, for normalization; empty: the dataset has none."""

    @classmethod
    def open(
        cls, root: str | os.PathLike[str], episodes: Sequence[int] | None = None
    ) -> "DatasetFolder":
        """Read the metadata and the rows of a dataset; no video is opened.

        Args:
            root: Its folder; or the id of a repository ("lerobot/pusht") that the local cache of
                `huggingface_hub` or of LeRobot holds.
            episodes: Numbers of the episodes to use; None: all.

        Raises:
            ConfigError: it is no dataset, of another version, not here, or has no such episode.
            BackendError: pyarrow is not installed.
        """
        folder = find_folder(root)
        info = _read_json(folder / "meta" / "info.json")
        version = str(info.get("codebase_version"))
        if version not in _VERSIONS or "features" not in info or not info.get("fps"):
            raise ConfigError(
                f"{folder} is a LeRobot dataset of version {version}, and headrace reads "
                f"{', '.join(_VERSIONS)}; convert it with lerobot's scripts"
            )
        reader = _Joined(folder, info) if version == _JOINED else _Single(folder, info)
        table = reader.episodes()
        numbers = np.array(table["episode_index"], np.int64)
        chosen = _chosen(numbers, episodes, folder)
        columns, episode_of_row = _read_columns(
            folder, info["features"], reader.data_files(table, chosen), numbers[chosen]
        )
        counts = np.array([np.sum(episode_of_row == each) for each in numbers[chosen]], np.int64)
        wanted = np.array(table["length"], np.int64)[chosen]
        if (counts != wanted).any():
            bad = int(np.flatnonzero(counts != wanted)[0])
            raise ConfigError(
                f"episode {numbers[chosen][bad]} of {folder} has {counts[bad]} rows in data, and "
                f"{wanted[bad]} by its metadata; see headrace doctor {folder}"
            )
        return cls(
            root=folder,
            info=info,
            episodes=numbers[chosen],
            row_start=np.concatenate([[0], counts.cumsum()]),
            columns=columns,
            cameras=tuple(
                reader.camera(key, table, chosen)
                for key, feature in info["features"].items()
                if feature["dtype"] == "video"
            ),
            tasks=reader.texts("tasks"),
            subtasks=reader.texts("subtasks") if "subtask_index" in info["features"] else (),
            stats=reader.stats(),
        )

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.row_start[-1])

    @property
    def fps(self) -> float:
        """Rows in a second."""
        return float(self.info["fps"])

    @property
    def features(self) -> Mapping[str, Mapping[str, Any]]:
        """Feature → its `dtype`, `shape` and `names`."""
        features: Mapping[str, Mapping[str, Any]] = self.info["features"]
        return features

    def numbers(self, column: str) -> NDArray[Any]:
        """Return a column of one number a row, [M]."""
        values = self.columns[column]
        assert isinstance(values, torch.Tensor)
        array: NDArray[Any] = values.numpy()
        return array

    def episode_of(self, row: int) -> int:
        """Return the position of a row's episode in `episodes`."""
        return int(np.searchsorted(self.row_start, row, side="right")) - 1

    def name(self, row: int) -> str:
        """Return a row's episode and frame, for messages."""
        episode = self.episode_of(row)
        return f"episode {self.episodes[episode]}, frame {row - self.row_start[episode]}"


def find_folder(root: str | os.PathLike[str]) -> Path:
    """Return the folder of a dataset, or of a repository in a local cache.

    Raises:
        ConfigError: it is not here; the message says how to download it.
    """
    folder = Path(root)
    if folder.exists():
        if not (folder / "meta" / "info.json").is_file():
            raise ConfigError(f"{folder} has no meta/info.json; {_NOT_A_DATASET}")
        return folder
    repo_id = str(root)
    if repo_id.count("/") != 1 or repo_id.startswith(("/", ".", "~")):
        raise ConfigError(f"there is no folder {folder}; {_NOT_A_DATASET}")
    for cached in _cached(repo_id):
        if (cached / "meta" / "info.json").is_file():
            return cached
    raise ConfigError(
        f"there is no folder {folder}, and no dataset {repo_id} in the local caches of "
        f"huggingface_hub and LeRobot; headrace downloads nothing: run `hf download --repo-type "
        f"dataset {repo_id}`, or give its folder"
    )


def _cached(repo_id: str) -> Iterator[Path]:
    """Yield the folders in which a repository would lie."""
    try:
        from huggingface_hub import constants, snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError:
        return
    with suppress(LocalEntryNotFoundError, HFValidationError):
        yield Path(snapshot_download(repo_id, repo_type="dataset", local_files_only=True))
    yield Path(constants.HF_HOME) / "lerobot" / repo_id


@dataclass(frozen=True)
class _Layout(ABC):
    """Where a version keeps its tables."""

    root: Path
    info: Mapping[str, Any]

    @abstractmethod
    def episodes(self) -> dict[str, list[Any]]:
        """Return the table of episodes: `episode_index`, `length`, and where their files lie."""

    @abstractmethod
    def data_files(self, table: Mapping[str, list[Any]], chosen: NDArray[np.int64]) -> list[Path]:
        """Return the files with the rows of episodes, each once, in order."""

    @abstractmethod
    def camera(self, key: str, table: Mapping[str, list[Any]], chosen: NDArray[np.int64]) -> Camera:
        """Return the files of a camera."""

    @abstractmethod
    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of `tasks` or `subtasks`."""

    def stats(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Return the statistics of each feature."""
        path = self.root / "meta" / "stats.json"
        return _as_arrays(_read_json(path)) if path.is_file() else {}


class _Joined(_Layout):
    """v3.0: files of several episodes."""

    def episodes(self) -> dict[str, list[Any]]:
        files = sorted((self.root / "meta" / "episodes").glob("*/*.parquet"))
        if not files:
            raise ConfigError(f"{self.root} has no meta/episodes/*/*.parquet; {_NOT_A_DATASET}")
        names = ("episode_index", "length", "data/", "videos/")
        table: dict[str, list[Any]] = _read_parquet(
            files, [name for name in _schema(files[0]) if name.startswith(names)]
        ).to_pydict()
        order = np.argsort(table["episode_index"])
        return {name: [values[k] for k in order] for name, values in table.items()}

    def data_files(self, table: Mapping[str, list[Any]], chosen: NDArray[np.int64]) -> list[Path]:
        return [*dict.fromkeys(self._files("data", self.info["data_path"], table, chosen))]

    def camera(self, key: str, table: Mapping[str, list[Any]], chosen: NDArray[np.int64]) -> Camera:
        of, path = f"videos/{key}", self.info["video_path"]
        return Camera(
            key=key,
            files=self._files(of, path, table, chosen, video_key=key),
            start_seconds=np.array(table[f"{of}/from_timestamp"], np.float64)[chosen],
            end_seconds=np.array(table[f"{of}/to_timestamp"], np.float64)[chosen],
        )

    def texts(self, name: str) -> tuple[str, ...]:
        path = self.root / "meta" / f"{name}.parquet"
        if not path.is_file():
            return ()
        columns = _read_parquet([path]).to_pydict()
        [texts] = [values for column, values in columns.items() if column != f"{name[:-1]}_index"]
        return tuple(texts)

    def _files(
        self,
        of: str,
        path: str,
        table: Mapping[str, list[Any]],
        chosen: NDArray[np.int64],
        **names: str,
    ) -> tuple[Path, ...]:
        chunks, files = table[f"{of}/chunk_index"], table[f"{of}/file_index"]
        return tuple(
            self.root / path.format(chunk_index=chunks[k], file_index=files[k], **names)
            for k in chosen.tolist()
        )


class _Single(_Layout):
    """v2.0 and v2.1: a file of each episode."""

    def episodes(self) -> dict[str, list[Any]]:
        rows = sorted(self._lines("episodes"), key=lambda row: int(row["episode_index"]))
        return {name: [row[name] for row in rows] for name in ("episode_index", "length")}

    def data_files(self, table: Mapping[str, list[Any]], chosen: NDArray[np.int64]) -> list[Path]:
        return self._files(self.info["data_path"], table, chosen)

    def camera(self, key: str, table: Mapping[str, list[Any]], chosen: NDArray[np.int64]) -> Camera:
        return Camera(
            key=key,
            files=tuple(self._files(self.info["video_path"], table, chosen, video_key=key)),
            start_seconds=np.zeros(len(chosen)),
            end_seconds=np.full(len(chosen), np.nan),
        )

    def texts(self, name: str) -> tuple[str, ...]:
        if not (self.root / "meta" / f"{name}.jsonl").is_file():
            return ()
        rows = sorted(self._lines(name), key=lambda row: int(row[_INDEX_COLUMN]))
        return tuple(row["task"] for row in rows)

    def stats(self) -> dict[str, dict[str, NDArray[Any]]]:
        if (self.root / "meta" / "episodes_stats.jsonl").is_file():
            return _joined_stats(
                [_as_arrays(row["stats"]) for row in self._lines("episodes_stats")]
            )
        return super().stats()

    def _files(
        self, path: str, table: Mapping[str, list[Any]], chosen: NDArray[np.int64], **names: str
    ) -> list[Path]:
        size = int(self.info.get("chunks_size", 1000))
        numbers = [int(table["episode_index"][k]) for k in chosen.tolist()]
        return [
            self.root / path.format(episode_chunk=n // size, episode_index=n, **names)
            for n in numbers
        ]

    def _lines(self, name: str) -> list[Any]:
        path = self.root / "meta" / f"{name}.jsonl"
        with file_errors(f"cannot read {path}", _NOT_A_DATASET):
            lines = path.read_text(encoding="utf-8").splitlines()
        return [_parsed(line, path) for line in lines if line.strip()]


def _chosen(
    numbers: NDArray[np.int64], episodes: Sequence[int] | None, folder: Path
) -> NDArray[np.int64]:
    """Return the positions of episodes in `numbers`, int64, ascending."""
    if episodes is None:
        return np.arange(len(numbers))
    wanted = [*episodes]
    for episode in wanted:
        check_counts(0, 2**63 - 1, episodes=episode)
    missing = sorted({*map(int, wanted)} - {*numbers.tolist()})
    if missing or not wanted:
        lacks = f"has no episode {missing[0]}" if missing else "was asked for no episode"
        raise ConfigError(
            f"{folder} {lacks}; it has {len(numbers)}, from {numbers[0]} to {numbers[-1]}"
        )
    return np.flatnonzero(np.isin(numbers, wanted))


def _read_columns(
    folder: Path,
    features: Mapping[str, Mapping[str, Any]],
    files: list[Path],
    episodes: NDArray[np.int64],
) -> tuple[dict[str, torch.Tensor | list[str]], NDArray[np.int64]]:
    """Return the columns of the rows of `episodes`, and the episode of each row, int64 [M]."""
    images = [name for name, feature in features.items() if feature["dtype"] == "image"]
    if images:
        raise ConfigError(
            f"{folder} keeps {', '.join(images)} as pictures in its tables, not as video; convert "
            "it with lerobot's `lerobot-edit-dataset --operation.type convert_image_to_video`, or "
            "read it with LeRobotDataset"
        )
    names = [name for name, feature in features.items() if feature["dtype"] != "video"]
    table = _read_parquet(files, names, [("episode_index", "in", episodes.tolist())])
    columns = {
        name: _as_tensor(table.column(name), features[name]["shape"], f"{name} of {folder}")
        for name in names
    }
    numbers = columns["episode_index"]
    assert isinstance(numbers, torch.Tensor)
    return columns, numbers.numpy()


def _as_tensor(column: Any, shape: Sequence[int], where: str) -> torch.Tensor | list[str]:
    """Return a column as LeRobot's items have it: a number of shape (1,) is a scalar."""
    if column.null_count:
        raise ConfigError(f"{where} lacks {column.null_count} values; fill them in")
    values, rows = column.combine_chunks(), len(column)
    values = getattr(values, "storage", values)  # of an extension type
    if str(values.type) in ("string", "large_string"):
        texts: list[str] = values.to_pylist()
        return texts
    while str(values.type).startswith(("list", "fixed_size_list", "large_list")):
        values = values.flatten()
    array = values.to_numpy(zero_copy_only=False)
    kind = {"b": torch.bool, "i": torch.int64, "u": torch.int64, "f": torch.get_default_dtype()}
    if array.dtype.kind not in kind:
        raise ConfigError(f"{where} holds {values.type}, and numbers or text are needed")
    if array.dtype.kind == "u":
        array = array.astype(np.int64)
    inner = () if tuple(shape) == (1,) else tuple(shape)
    if array.size != rows * int(np.prod(inner)):
        raise ConfigError(f"{where} holds {array.size} values in {rows} rows of {[*inner]}")
    tensor = torch.tensor(array.reshape(rows, *inner))
    return tensor.to(kind[array.dtype.kind])


def _schema(file: Path) -> list[str]:
    with require("parquet", "a LeRobot dataset"):
        import pyarrow.parquet

        with _parquet_errors(file):
            names: list[str] = pyarrow.parquet.read_schema(file).names
    return names


def _read_parquet(
    files: Sequence[Path], columns: Sequence[str] | None = None, filters: Any = None
) -> Any:
    """Return Parquet files as one table of pyarrow.

    Raises:
        ConfigError: one cannot be read, or lacks a column.
        BackendError: pyarrow is not installed.
    """
    with require("parquet", "a LeRobot dataset"):
        import pyarrow.parquet
    tables = []
    for file in files:
        with _parquet_errors(file):
            tables.append(
                pyarrow.parquet.ParquetFile(file).read()
                if columns is None
                else pyarrow.parquet.read_table(file, columns=[*columns], filters=filters)
            )
        lacking = [name for name in columns or () if name not in tables[-1].column_names]
        if lacking:
            raise ConfigError(f"{file} has no column {lacking[0]}; see headrace doctor")
    return pyarrow.concat_tables(tables, promote_options="default")


@contextmanager
def _parquet_errors(file: Path) -> Iterator[None]:
    """Convert the errors of pyarrow on a file."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:  # those of pyarrow are of these
        raise ConfigError(
            f"cannot read {file}: {first_line(error)}; download the dataset again"
        ) from error


def _read_json(path: Path) -> Any:
    with file_errors(f"cannot read {path}", _NOT_A_DATASET):
        text = path.read_text(encoding="utf-8")
    return _parsed(text, path)


def _parsed(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON: {error}; download the dataset again") from error


def _as_arrays(stats: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, NDArray[Any]]]:
    return {
        feature: {name: np.atleast_1d(np.array(value)) for name, value in values.items()}
        for feature, values in stats.items()
    }


def _joined_stats(
    episodes: Sequence[Mapping[str, Mapping[str, NDArray[Any]]]],
) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the statistics of all episodes together, by those of each."""
    joined: dict[str, dict[str, NDArray[Any]]] = {}
    for feature in episodes[0]:
        parts = [episode[feature] for episode in episodes]
        counts = np.array([part["count"].item() for part in parts], np.float64)
        means = np.stack([part["mean"] for part in parts])
        weights = (counts / counts.sum()).reshape(-1, *[1] * (means.ndim - 1))
        mean = (weights * means).sum(0)
        variances = np.stack([part["std"] ** 2 for part in parts]) + (means - mean) ** 2
        joined[feature] = {
            "min": np.stack([part["min"] for part in parts]).min(0),
            "max": np.stack([part["max"] for part in parts]).max(0),
            "mean": mean,
            "std": np.sqrt((weights * variances).sum(0)),
            "count": np.array([int(counts.sum())]),
        }
    return joined
