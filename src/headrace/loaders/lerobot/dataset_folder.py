"""DatasetFolder: metadata, rows and video files of a LeRobot dataset, as they lie in its folder."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.lerobot.dataset_layout import (
    NEEDED,
    VERSIONS,
    Camera,
    DatasetLayout,
    EpisodeTable,
)
from headrace.loaders.lerobot.dataset_tables import (
    NOT_A_DATASET,
    as_tensor,
    joined_tables,
    metadata_errors,
    read_parquet,
)
from headrace.units import check_counts

ProblemKind = Literal[
    "missing", "unreadable", "rows", "values", "short", "unequal", "off", "keyframe", "damage"
]
"""missing, unreadable: of a file. rows: they do not match the metadata. values: a column that
cannot be used. short: a video ends before its rows. unequal: cameras with different numbers of
frames. off: frames that are not at the time of their row. keyframe: an episode that starts between
keyframes. damage: what the index of a video reports."""


@dataclass(frozen=True)
class DatasetProblem:
    """One problem of a dataset."""

    kind: ProblemKind
    message: str
    episodes: tuple[int, ...] = ()
    """Numbers of the episodes that it concerns; empty: not of any by itself."""
    file: Path | None = None


OnProblem = Callable[[DatasetProblem], None]


def refuse(problem: DatasetProblem) -> None:
    """Raise ConfigError."""
    raise ConfigError(f"{problem.message}; headrace doctor lists all that is wrong")


Columns = Mapping[str, torch.Tensor | list[str]]


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
    columns: Columns
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
        cls,
        root: str | os.PathLike[str],
        episodes: Sequence[int] | None = None,
        on_problem: OnProblem = refuse,
    ) -> "DatasetFolder":
        """Read the metadata and the rows of a dataset; no video is opened.

        Args:
            root: Its folder; or the id of a repository ("lerobot/pusht") that the local cache of
                `huggingface_hub` or of LeRobot holds.
            episodes: Numbers of the episodes to use; None: all.
            on_problem: Called for each file of rows that cannot be read, and for rows that do not
                match the metadata. If it returns, the rows that can be used are.

        Raises:
            ConfigError: it is no dataset, of another version, not here, or has no such episode.
            BackendError: pyarrow is not installed.
        """
        folder = find_folder(root)
        with metadata_errors(folder):
            layout = DatasetLayout.of(folder)
            table = layout.episodes()
            numbers = np.array(table["episode_index"], np.int64)
            chosen = _chosen(numbers, episodes, folder)
            columns, counts = _read_rows(layout, table, chosen, numbers[chosen], on_problem)
            opened = cls(
                root=folder,
                info=layout.info,
                episodes=numbers[chosen],
                row_start=np.concatenate([[0], counts.cumsum()]),
                columns=columns,
                cameras=tuple(layout.camera(key, table, chosen) for key in layout.camera_keys),
                tasks=layout.tasks(),
                subtasks=layout.subtasks(),
                stats=layout.stats(),
            )
            opened._check_texts(on_problem)
        return opened

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

    def number_of(self, row: int) -> int:
        """Return the number of a row's episode."""
        return int(self.episodes[self.episode_of(row)])

    def name(self, row: int) -> str:
        """Return a row's episode and frame, for messages."""
        frame = row - self.row_start[self.episode_of(row)]
        return f"episode {self.number_of(row)}, frame {frame}"

    def _check_texts(self, on_problem: OnProblem) -> None:
        """Check that all tasks of rows have a text."""
        for name, texts in (("task", self.tasks), ("subtask", self.subtasks)):
            if name == "subtask" and not texts:
                continue
            numbers = self.numbers(f"{name}_index")
            for row in np.flatnonzero((numbers < 0) | (numbers >= len(texts)))[:1].tolist():
                message = (
                    f"{self.name(row)} of {self.root} has {name}_index {numbers[row]}, and the "
                    f"metadata has {len(texts)} {name}s"
                )
                on_problem(DatasetProblem("rows", message, (self.number_of(row),)))


def find_folder(root: str | os.PathLike[str]) -> Path:
    """Return the folder of a dataset, or of a repository in a local cache.

    Raises:
        ConfigError: it is not here; the message says how to download it.
    """
    if not isinstance(root, str | os.PathLike):
        raise ConfigError(f"a dataset is named by its folder, got {root!r:.40}; {NOT_A_DATASET}")
    folder = Path(root)
    if folder.exists():
        if not (folder / "meta" / "info.json").is_file():
            raise ConfigError(f"{folder} has no meta/info.json; {NOT_A_DATASET}")
        return folder
    repo_id = str(root)
    if repo_id.count("/") != 1 or repo_id.startswith(("/", ".", "~")):
        raise ConfigError(f"there is no folder {folder}; {NOT_A_DATASET}")
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
    of_lerobot = Path(constants.HF_HOME) / "lerobot"
    yield of_lerobot / repo_id
    caches = (Path(constants.HF_HUB_CACHE), of_lerobot / "hub")
    # LeRobot downloads the tag of a version, `hf download` the branch.
    for revision, cache in product(("main", *VERSIONS), caches):
        with suppress(LocalEntryNotFoundError, HFValidationError):
            found = snapshot_download(
                repo_id,
                repo_type="dataset",
                revision=revision,
                cache_dir=cache,
                local_files_only=True,
            )
            yield Path(found)


def _chosen(
    numbers: NDArray[np.int64], episodes: Sequence[int] | None, folder: Path
) -> NDArray[np.int64]:
    """Return the positions of episodes in `numbers`, int64, ascending."""
    if not len(numbers):
        raise ConfigError(f"{folder} has no episodes; record some, or give another dataset")
    if episodes is None:
        return np.arange(len(numbers))
    if not isinstance(episodes, Iterable):
        raise ConfigError(f"episodes must be a list of numbers, got {episodes!r:.40}")
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


def _read_rows(
    layout: DatasetLayout,
    table: EpisodeTable,
    chosen: NDArray[np.int64],
    episodes: NDArray[np.int64],
    on_problem: OnProblem,
) -> tuple[Columns, NDArray[np.int64]]:
    """Return the columns of the rows of episodes, in their order, and the rows of each."""
    columns, is_read = _read_columns(layout, table, chosen, episodes, on_problem)
    of_row = np.asarray(columns["episode_index"])
    place = np.searchsorted(episodes, of_row).clip(max=len(episodes) - 1)
    is_known = episodes[place] == of_row
    if not is_known.all() or (np.diff(place) < 0).any():
        message = (
            f"the rows of {layout.root} are not in the order of its episodes, or of episodes that "
            "its metadata lacks"
        )
        on_problem(DatasetProblem("rows", message))
        order = np.flatnonzero(is_known)[np.argsort(place[is_known], kind="stable")].tolist()
        columns = {
            name: values[order] if torch.is_tensor(values) else [values[row] for row in order]
            for name, values in columns.items()
        }
    counts = np.bincount(place[is_known], minlength=len(episodes))
    lengths = np.array(table["length"], np.int64)[chosen]
    for k in np.flatnonzero((counts != lengths) & is_read).tolist():
        message = (
            f"episode {episodes[k]} of {layout.root} has {counts[k]} rows in data, and "
            f"{lengths[k]} by its metadata"
        )
        on_problem(DatasetProblem("rows", message, (int(episodes[k]),)))
    return columns, counts


def _read_columns(
    layout: DatasetLayout,
    table: EpisodeTable,
    chosen: NDArray[np.int64],
    episodes: NDArray[np.int64],
    on_problem: OnProblem,
) -> tuple[dict[str, torch.Tensor | list[str]], NDArray[np.bool_]]:
    """Return the columns of the rows of episodes, and whether the file of each could be read."""
    features = layout.info["features"]
    names = [name for name, feature in features.items() if feature["dtype"] != "video"]
    is_subset = len(chosen) < len(table["episode_index"])
    filters = [("episode_index", "in", episodes.tolist())] if is_subset else None
    positions, tables = defaultdict[Path, list[int]](list), []
    for position, file in enumerate(layout.data_files(table, chosen)):
        positions[file].append(position)
    is_read = np.ones(len(episodes), np.bool_)
    for file, of_file in positions.items():
        try:
            tables.append(read_parquet(file, names, filters))
        except ConfigError as error:
            is_read[of_file] = False
            numbers = tuple(episodes[of_file].tolist())
            kind: ProblemKind = "unreadable" if file.exists() else "missing"
            on_problem(DatasetProblem(kind, str(error), numbers, file))
    if not tables:
        return dict.fromkeys(names, torch.zeros(0)), is_read
    rows, columns = joined_tables(tables, layout.root), dict[str, torch.Tensor | list[str]]()
    for name in names:
        where = f"{name} of {layout.root}"
        try:
            columns[name] = as_tensor(rows.column(name), features[name]["shape"], where)
        except ConfigError as error:
            if name in NEEDED:
                raise
            on_problem(DatasetProblem("values", str(error)))
    return columns, is_read
