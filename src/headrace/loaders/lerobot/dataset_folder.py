"""DatasetFolder: metadata, rows and video files in the folder of a LeRobot dataset."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.loaders.lerobot.dataset_layout import (
    NEEDED,
    NOT_A_DATASET,
    VERSIONS,
    Camera,
    DatasetLayout,
    EpisodeTable,
    concat_tables,
    read_parquet,
    table_errors,
)
from headrace.units import check_counts

ProblemKind = Literal[
    "missing", "unreadable", "rows", "values", "short", "unequal", "off", "keyframe", "damage"
]
"""missing, unreadable: a file. rows: rows that do not match the metadata. values: an unusable
column. short: a video that ends before its rows. unequal: cameras with different numbers of frames.
off: frames whose time differs from their row's. keyframe: an episode that starts between keyframes.
damage: problems that the index of a video reports."""


@dataclass(frozen=True)
class DatasetProblem:
    """One problem of a dataset."""

    kind: ProblemKind
    message: str
    episodes: tuple[int, ...] = ()
    """Numbers of the affected episodes; empty: the problem is of the whole dataset."""
    file: Path | None = None

    @classmethod
    def of_file(cls, file: Path, error: Exception, episodes: NDArray[np.int64]) -> Self:
        """Return the problem of a file that cannot be read, from its error."""
        kind: ProblemKind = "unreadable" if file.exists() else "missing"
        return cls(kind, str(error), tuple(episodes.tolist()), file)


OnProblem = Callable[[DatasetProblem], None]


def refuse(problem: DatasetProblem) -> None:
    """Raise ConfigError."""
    raise ConfigError(f"{problem.message}; headrace doctor lists all that is wrong")


Columns = Mapping[str, torch.Tensor | list[str]]


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetFolder:
    """LeRobot dataset, v2.0 to v3.0, with E episodes and M rows; a row is one time step."""

    root: Path
    info: Mapping[str, Any]
    """Content of `meta/info.json`."""
    episodes: NDArray[np.int64]
    """int64 [E], ascending: numbers of the episodes."""
    row_start: NDArray[np.int64]
    """int64 [E + 1]: first row of each episode; the last entry is M."""
    columns: Columns
    """Column → [M, ...]: texts, or a tensor with LeRobot's dtype (int64, bool or default float)."""
    cameras: tuple[Camera, ...]
    texts: Mapping[str, Mapping[int, str]]
    """`task`, and `subtask` if the dataset has subtasks → number → text."""
    stats: Mapping[str, Mapping[str, NDArray[Any]]]
    """Feature → statistic → values, for normalization; empty: the dataset has no statistics."""

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        episodes: Sequence[int] | None = None,
        on_problem: OnProblem = refuse,
    ) -> Self:
        """Read the metadata and the rows of a dataset. Opens no video.

        Args:
            root: Folder of the dataset; or id of a repository ("lerobot/pusht") in the local cache
                of `huggingface_hub` or LeRobot.
            episodes: Numbers of the episodes to use; None: all.
            on_problem: Called for each unreadable file of rows, and for rows that do not match the
                metadata. If it returns, the usable rows are used.

        Raises:
            ConfigError: the dataset is missing, has another version, or lacks an episode, or the
                folder is not a dataset.
            BackendError: pyarrow is not installed.
        """
        folder = find_folder(root)
        with table_errors(f"the metadata of {folder} is not as LeRobot writes it"):
            layout = DatasetLayout.of(folder)
            table = _choose_episodes(layout.episodes(), episodes, folder)
            columns, counts = _read_rows(layout, table, on_problem, reads_all=episodes is None)
            opened = cls(
                root=folder,
                info=layout.info,
                episodes=np.array(table["episode_index"], np.int64),
                row_start=np.concatenate([[0], counts.cumsum()]),
                columns=columns,
                cameras=layout.cameras(table),
                texts=layout.texts(),
                stats=layout.stats(),
            )
            opened._check_texts(on_problem)
        return opened

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.row_start[-1])

    @property
    def fps(self) -> float:
        """Rows per second."""
        return float(self.info["fps"])

    @property
    def features(self) -> Mapping[str, Mapping[str, Any]]:
        """Feature → its `dtype`, `shape` and `names`."""
        features: Mapping[str, Mapping[str, Any]] = self.info["features"]
        return features

    @cached_property
    def episode_of(self) -> NDArray[np.int64]:
        """int64 [M]: position of each row's episode in `episodes`."""
        return np.arange(len(self.episodes)).repeat(np.diff(self.row_start))

    def numbers(self, column: str) -> NDArray[Any]:
        """Return a column with one number per row, [M]. Raises ConfigError if it holds text."""
        values = self.columns[column]
        if not isinstance(values, torch.Tensor):
            raise ConfigError(f"{column} of {self.root} must hold numbers, got text")
        array: NDArray[Any] = values.numpy()
        return array

    def rows_of(self, episode: int) -> slice:
        """Return the rows of an episode, by its position in `episodes`."""
        return slice(*self.row_start[episode : episode + 2].tolist())

    def name(self, row: int) -> str:
        """Return a row's episode and frame, for messages."""
        episode = self.episode_of[row]
        return f"episode {self.episodes[episode]}, frame {row - self.row_start[episode]}"

    def row_problem(self, row: int, message: str) -> DatasetProblem:
        """Return the problem of a row; `message` continues after the name of the row."""
        number = int(self.episodes[self.episode_of[row]])
        return DatasetProblem("rows", f"{self.name(row)}{message}", (number,))

    def _check_texts(self, on_problem: OnProblem) -> None:
        """Check that all task and subtask numbers of rows have a text."""
        for name, texts in self.texts.items():
            if f"{name}_index" not in self.columns:  # already reported
                continue
            numbers = self.numbers(f"{name}_index")
            for row in np.flatnonzero(~np.isin(numbers, [*texts]))[:1].tolist():
                message = (
                    f" of {self.root} has {name}_index {numbers[row]}, and the metadata has "
                    f"{len(texts)} {name}s"
                )
                on_problem(self.row_problem(row, message))


def find_folder(root: str | os.PathLike[str]) -> Path:
    """Return the folder of a dataset, or of a repository in a local cache.

    Raises:
        ConfigError: there is none; the message contains the download command.
    """
    if not isinstance(root, str | os.PathLike):
        raise ConfigError(f"root must be a path, got {root!r:.40}; {NOT_A_DATASET}")
    folder, repo_id = Path(root), str(root)
    if folder.exists():
        if not (folder / "meta" / "info.json").is_file():
            raise ConfigError(f"{folder} has no meta/info.json; {NOT_A_DATASET}")
        return folder
    if repo_id.count("/") != 1 or repo_id.startswith(("/", ".", "~")):
        raise ConfigError(f"there is no folder {folder}; {NOT_A_DATASET}")
    for cached in _cache_folders(repo_id):
        if (cached / "meta" / "info.json").is_file():
            return cached
    raise ConfigError(
        f"there is no folder {folder}, and no dataset {repo_id} in the local caches of "
        f"huggingface_hub and LeRobot; headrace downloads nothing: run `hf download --repo-type "
        f"dataset {repo_id}`, or give its folder"
    )


def _cache_folders(repo_id: str) -> Iterator[Path]:
    """Yield the folders in which a downloaded repository would be."""
    try:
        from huggingface_hub import constants, try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return
    lerobot_cache = Path(constants.HF_HOME) / "lerobot"
    yield lerobot_cache / repo_id
    caches = (Path(constants.HF_HUB_CACHE), lerobot_cache / "hub")
    # LeRobot downloads the tag of a version, `hf download` the branch.
    for revision, cache in product(("main", *VERSIONS), caches):
        with suppress(HFValidationError):
            info = try_to_load_from_cache(repo_id, "meta/info.json", cache, revision, "dataset")
            if isinstance(info, str):
                yield Path(info).parents[1]


def positions_of(files: Iterable[Path]) -> Mapping[Path, list[int]]:
    """Return file → its positions, ascending."""
    positions = defaultdict[Path, list[int]](list)
    for position, file in enumerate(files):
        positions[file].append(position)
    return positions


def _choose_episodes(
    table: EpisodeTable, episodes: Sequence[int] | None, folder: Path
) -> EpisodeTable:
    """Return the table of the episodes with the given numbers; None: all."""
    numbers = np.array(table["episode_index"], np.int64)
    if not len(numbers):
        raise ConfigError(f"{folder} has no episodes; record some, or give another dataset")
    if episodes is None:
        return table
    if not isinstance(episodes, Iterable):
        raise ConfigError(f"episodes must be a list of numbers, got {episodes!r:.40}")
    wanted = [*episodes]
    for episode in wanted:
        check_counts(0, 2**63 - 1, episodes=episode)
    missing = sorted({*map(int, wanted)} - {*numbers.tolist()})
    if missing or not wanted:
        lacks = f"{folder} has no episode {missing[0]}; " if missing else "episodes is empty; "
        raise ConfigError(
            f"{lacks}choose among the {len(numbers)} episodes from {numbers[0]} to {numbers[-1]}"
        )
    chosen = np.flatnonzero(np.isin(numbers, wanted)).tolist()
    return {name: [values[k] for k in chosen] for name, values in table.items()}


def _read_rows(
    layout: DatasetLayout, table: EpisodeTable, on_problem: OnProblem, *, reads_all: bool
) -> tuple[Columns, NDArray[np.int64]]:
    """Return the columns of the episodes' rows, in order, and the number of rows of each."""
    episodes, lengths = (np.array(table[name], np.int64) for name in ("episode_index", "length"))
    features = layout.info["features"].items()
    shapes = {name: feature["shape"] for name, feature in features if feature["dtype"] != "video"}
    filters = None if reads_all else [("episode_index", "in", episodes.tolist())]
    is_read, tables = np.ones(len(episodes), np.bool_), []
    files = layout.files("data", layout.info["data_path"], table)
    for file, positions in positions_of(files).items():
        try:
            tables.append(read_parquet(file, [*shapes], filters=filters))
        except ConfigError as error:
            is_read[positions] = False
            on_problem(DatasetProblem.of_file(file, error, episodes[positions]))
    if not tables:
        return dict.fromkeys(shapes, torch.zeros(0)), np.zeros(len(episodes), np.int64)
    rows = concat_tables(tables, layout.root)
    numbers = rows.column("episode_index").to_numpy()
    is_known = np.isin(numbers, episodes)
    if not is_known.all() or (np.diff(numbers) < 0).any():
        message = (
            f"the rows of {layout.root} are not in the order of its episodes, or of episodes that "
            "its metadata lacks"
        )
        on_problem(DatasetProblem("rows", message))
        rows = rows.filter(is_known).sort_by("episode_index")
    columns = dict[str, torch.Tensor | list[str]]()
    for name, shape in shapes.items():
        try:
            columns[name] = _as_tensor(rows.column(name), shape, f"{name} of {layout.root}")
        except ConfigError as error:
            if name in NEEDED:
                raise
            on_problem(DatasetProblem("values", str(error)))
    positions = np.searchsorted(episodes, numbers[is_known])
    counts = np.bincount(positions, minlength=len(episodes))
    for k in np.flatnonzero((counts != lengths) & is_read).tolist():
        message = (
            f"episode {episodes[k]} of {layout.root} has {counts[k]} rows in data, and "
            f"{lengths[k]} by its metadata"
        )
        on_problem(DatasetProblem("rows", message, (int(episodes[k]),)))
    return columns, counts


def _as_tensor(column: Any, shape: Sequence[int], where: str) -> torch.Tensor | list[str]:
    """Return a column with the shape of LeRobot's items: numbers of shape (1,) become scalars.

    Args:
        column: Column of a pyarrow table.
        shape: Shape of a row in the metadata.
        where: Name of the column and its dataset, for messages.

    Raises:
        ConfigError: values are missing, are neither numbers nor text, or have another shape.
    """
    import pyarrow.compute

    values, rows = column.combine_chunks(), len(column)
    values = getattr(values, "storage", values)  # if it is an extension type
    lacking, is_ragged = values.null_count, False
    while str(values.type).startswith(("list", "fixed_size_list", "large_list")):
        is_ragged |= len(pyarrow.compute.list_value_length(values).unique()) > 1
        values = values.flatten()
        lacking += values.null_count
    if lacking:
        raise ConfigError(f"{where} lacks {lacking} values; fill them in")
    if str(values.type) in ("string", "large_string"):
        texts: list[str] = values.to_pylist()
        return texts
    array = values.to_numpy(zero_copy_only=False)
    dtypes = {"b": torch.bool, "i": torch.int64, "u": torch.int64, "f": torch.get_default_dtype()}
    dtype = dtypes.get(array.dtype.kind)
    if dtype is None:
        raise ConfigError(f"{where} must hold numbers or text, got {values.type}")
    inner = () if tuple(shape) == (1,) else tuple(shape)
    if is_ragged or array.size != rows * int(np.prod(inner)):
        raise ConfigError(
            f"{where} holds {array.size} values in {rows} rows, but rows must have the shape "
            f"{[*shape]}"
        )
    array = array.astype(np.int64) if array.dtype.kind == "u" else array
    return torch.tensor(array.reshape(rows, *inner), dtype=dtype)
