"""Manifest: table of samples; a row is a video, or a segment of one."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.decode.proxies import Proxies
from headrace.errors import ConfigError
from headrace.loaders.manifest_rows import (
    CONSUMED,
    Classes,
    ClassNames,
    Column,
    RowPlaces,
    check_classes,
    check_columns,
    check_weights,
    class_numbers,
    column_of,
    is_labels,
    is_missing,
    named_path,
    read_rows,
    segment_of,
    table_of,
    video_of,
)
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.units import check_counts
from headrace.video.find_videos import find_videos, path_column
from headrace.video.source import Source
from headrace.video.timebase import exact_number


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Manifest:
    """Table of rows to sample, in place of a list of videos: `Manifest.read("labels.csv")`.

        train, test = Manifest.read("labels.csv").split(0.8)
        with ClipLoader(train, clips=RandomClips(num_frames=16, fps=8)) as loader:
            for batch in loader:
                loss = cross_entropy(model(batch.frames), batch.label)

    A row is a video, or its segment [start_seconds, end_seconds). Segments may overlap, and a video
    may have any number of them. A loader samples rows like videos: `RandomClips` takes one clip of
    each row per epoch, inside the segment. All other columns are entries of each batch.
    """

    places: RowPlaces
    """Location of each row: file or name, and line."""
    videos: tuple[Path | Source, ...]
    """Distinct videos, in the order of their first rows: a Source if the row has one or selects a
    stream of the file; with `with_proxies`, the proxies."""
    video: NDArray[np.int64]
    """int64 [rows]: position of each row's video in `videos`."""
    segments: tuple[tuple[Fraction, Fraction | None], ...]
    """Segment [start, end) of each row: presentation times in seconds, exact as written; end None:
    the end of the video."""
    columns: Mapping[str, Column]
    """Name → [rows], int64, float64 or text, for every column except path, stream and times."""
    classes: Mapping[str, tuple[str, ...]]
    """Column of text labels → names of its classes, sorted; a label in a batch is an index into
    them."""
    numbers: Mapping[str, NDArray[np.int64]]
    """Column of text labels → int64 [rows]: the class number of each row."""

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, classes: Classes | None = None) -> "Manifest":
        """Read a manifest from a CSV, .tsv, JSON lines (.jsonl) or Parquet file.

        Also reads a .txt file with lines "path label". A file without a header line has the columns
        path, label, start_seconds, end_seconds, in this order.

        Args:
            path: Path of the file; relative paths of videos start in its folder.
            classes: Column of labels → classes, so that two files have the same classes:
                `Manifest.read("val.csv", classes=train.classes)`. None: the labels in the file.

        Raises:
            ConfigError: the file cannot be read, or its rows are invalid: see `of_rows`.
            BackendError: the file is Parquet, and pyarrow is not installed.
        """
        file = named_path(path, "a manifest")
        rows, places = read_rows(file)
        return cls._of(table_of(rows, str(file)), file.parent, classes, places)

    @classmethod
    def of_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        *,
        folder: str | os.PathLike[str] = "",
        classes: Classes | None = None,
        name: str = "the manifest",
    ) -> "Manifest":
        """Return a manifest of rows that are dicts: `Manifest.of_rows(frame.to_dict("records"))`.

        Columns with a meaning: `path` (or `video`, `file`, `filename`), required: paths or Sources,
        such as an ImageSequence; `start_seconds` and `end_seconds`; `stream`, for a file with
        several videos (number among all streams, or "v:1"); `label`, `class` and `label_...`, whose
        texts become class numbers in batches; `weight`, for `weights`; `group`, for `split`. Other
        columns are entries of batches only. A column of integers is int64, of numbers float64, any
        other column text.

        Args:
            rows: Dicts from column to value; None, "" and NaN are missing values.
            folder: Folder in which relative paths start.
            classes: As for `read`.
            name: Name of the manifest in messages.

        Raises:
            ConfigError: there is no row or no column of paths, or a path or label is missing or
                invalid.
        """
        table, start = table_of(rows, name), named_path(folder, "the folder that paths start in")
        return cls._of(table, start, classes, RowPlaces.of_rows(len(table), name))

    @classmethod
    def _of(
        cls,
        table: Sequence[Mapping[str, Any]],
        folder: Path,
        classes: Classes | None,
        places: RowPlaces,
    ) -> "Manifest":
        check_classes(classes)
        headers = dict.fromkeys(header for row in table for header in row)
        check_columns(headers, places.name)
        path = path_column(headers, places.name)
        where = list(map(places.where, range(len(table))))
        paths = [video_of(row, path, folder, at) for row, at in zip(table, where, strict=True)]
        videos = {video: position for position, video in enumerate(dict.fromkeys(paths))}
        names = [header for header in headers if header not in (path, *CONSUMED)]
        columns = {
            name: column_of(name, [row.get(name) for row in table], places) for name in names
        }
        check_weights(columns.get("weight"), places)
        given = dict(classes or {})
        labels = {
            name: class_numbers(name, column, given.pop(name, None), places)
            for name, column in columns.items()
            if is_labels(name) and column.dtype == object
        }
        if given:
            raise ConfigError(
                f"classes has {', '.join(map(str, given))}, which {places.name} does not have as a "
                f"column of text labels; it has {', '.join(labels) or 'none'}"
            )
        return cls(
            places=places,
            videos=tuple(videos),
            video=np.array([videos[video] for video in paths], np.int64),
            segments=tuple(segment_of(row, at) for row, at in zip(table, where, strict=True)),
            columns=columns,
            classes=ClassNames(
                {name: classes for name, (classes, _) in labels.items()},
                *(places.name, ", ".join(headers)),
            ),
            numbers={name: numbers for name, (_, numbers) in labels.items()},
        )

    @classmethod
    def of_folders(cls, folder: str | os.PathLike[str]) -> "Manifest":
        """Return the videos of a folder with one subfolder per class, labeled by its name.

        Raises:
            ConfigError: the path is not a folder, or has videos outside of its subfolders.
        """
        top = named_path(folder, "a folder")
        if not top.is_dir():
            raise ConfigError(f"folder must have one subfolder per class, and {top} is no folder")
        rows: list[dict[str, Any]] = []
        for video in find_videos([top]):
            label, *rest = video.relative_to(top).parts
            if not rest:
                raise ConfigError(f"{video} has no class; move it to a subfolder of {top}")
            rows.append({"path": video, "label": label})
        return cls.of_rows(rows, name=str(top))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.video)

    def __iter__(self) -> NoReturn:
        raise ConfigError(
            "only loaders and datasets of frames and clips accept a Manifest; elsewhere use its "
            "videos: manifest.videos"
        )

    def __repr__(self) -> str:
        counts = f"{len(self)} rows of {len(self.videos)} videos"
        return f"Manifest({self.name}: {counts}; columns {', '.join(self.columns) or 'none'})"

    @property
    def name(self) -> str:
        """Name of the manifest in messages."""
        return self.places.name

    @property
    def weights(self) -> tuple[float, ...]:
        """Relative frequency of each row: the column `weight`, otherwise 1 for all.

        For samplers: `RandomClips(..., weights=manifest.weights)`,
        `UniformFrames(over=manifest.weights)`.
        """
        column = self.columns.get("weight")
        return (1.0,) * len(self) if column is None else tuple(map(float, column))

    def balanced(self, column: str = "label") -> tuple[float, ...]:
        """Return weights that make all values of a column equally frequent.

        Rows of one value share its frequency in proportion to `weights`.

        Raises:
            ConfigError: the column is missing, or all rows of a value have weight 0.
        """
        _, value_of_row = np.unique(self._column(column).astype(str), return_inverse=True)
        weights = np.array(self.weights)
        total = np.bincount(value_of_row, weights)
        if not total.all():
            value = self.columns[column][value_of_row == int(total.argmin())][0]
            raise ConfigError(f"all rows with {column} {value!r} have weight 0; leave them out")
        return tuple((weights / total[value_of_row]).tolist())

    def with_proxies(self, proxies: Proxies) -> "Manifest":
        """Return the same rows, with videos read from their proxies.

        Raises:
            ConfigError: a video has no proxy, or `proxies` is not `Proxies`.
            OpenError: an original has changed since its proxy was made.
        """
        if not isinstance(proxies, Proxies):
            raise ConfigError(
                f"proxies must be headrace.Proxies(folder), got {type(proxies).__name__}"
            )
        return replace(self, videos=tuple(proxies.all(self.videos)))

    def subset(self, rows: ArrayLike) -> "Manifest":
        """Return a manifest of some rows: `subset(manifest.columns["split"] == "train")`.

        It keeps the classes of the full manifest, so that class numbers stay the same.

        Args:
            rows: Positions of rows, or a bool for each row.

        Raises:
            ConfigError: `rows` is neither, out of range or empty.
        """
        try:
            chosen = np.asarray(rows)
        except ValueError as error:
            raise ConfigError(
                f"rows must be positions of rows, or a bool for each row: {error}"
            ) from error
        if chosen.dtype == np.bool_ and chosen.shape == (len(self),):
            chosen = np.flatnonzero(chosen)
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
            raise ConfigError(
                f"rows must be positions among {len(self)} rows, or a bool for each row, got "
                f"{chosen.dtype} {[*chosen.shape]}"
            )
        if not len(chosen):
            raise ConfigError(f"rows selects no row of {self.name}; select at least one")
        if chosen.min() < 0 or chosen.max() >= len(self):
            wrong = chosen.max() if chosen.min() >= 0 else chosen.min()
            raise ConfigError(f"row {wrong} is out of range: {self.name} has {len(self)} rows")
        used, video = np.unique(self.video[chosen], return_inverse=True)
        return replace(
            self,
            places=self.places.chosen(chosen),
            videos=tuple(self.videos[video] for video in used.tolist()),
            video=video.astype(np.int64),
            segments=tuple(self.segments[row] for row in chosen.tolist()),
            columns={name: column[chosen] for name, column in self.columns.items()},
            numbers={name: column[chosen] for name, column in self.numbers.items()},
        )

    def split(self, share: float, *, seed: int = 0) -> tuple["Manifest", "Manifest"]:
        """Return a random part with about `share` of the rows, and the rest.

        Rows with the same video, or the same value of the column `group`, stay together, so that
        the parts have no video and no group in common.

        Raises:
            ConfigError: `share` is not between 0 and 1, or all rows belong together.
        """
        wanted = exact_number("share", share)
        check_counts(0, 2**64 - 1, seed=seed)
        if not 0 < wanted < 1:
            raise ConfigError(f"share must be above 0 and below 1, got {share}")
        files = [os.path.realpath(Source.of(video).path) for video in self.videos]
        unit = units_of([files[video] for video in self.video], self.columns.get("group"))
        if not unit.any():
            raise ConfigError(
                f"all rows of {self.name} share a video or group, directly or through others, so "
                "they cannot be split; use more groups"
            )
        is_first = drawn_share(unit, float(wanted), seed=seed)
        return self.subset(is_first), self.subset(~is_first)

    def values(self, rows: NDArray[np.int64]) -> dict[str, Column]:
        """Return the columns of some rows; text labels as class numbers."""
        return {name: self.numbers.get(name, column)[rows] for name, column in self.columns.items()}

    def _column(self, name: str) -> Column:
        if not isinstance(name, str) or name not in self.columns:
            raise ConfigError(
                f"{self.name} has no column {name!r}; it has {', '.join(self.columns) or 'none'}"
            )
        return self.columns[name]


def units_of(files: Sequence[str], groups: Column | None) -> NDArray[np.int64]:
    """Return the unit of each row, int64 [rows]; rows that share a file or group share a unit.

    Args:
        files: File of each row.
        groups: Group of each row, or a missing value; None: no row has a group.
    """
    parent: dict[object, object] = {}  # union-find

    def root_of(member: object) -> object:
        while parent.setdefault(member, member) != member:
            parent[member] = member = parent[parent[member]]
        return member

    for row, file in enumerate(files):
        if groups is not None and not is_missing(groups[row]):
            parent[root_of(("group", str(groups[row])))] = root_of(file)
    roots = [root_of(file) for file in files]
    number = {root: position for position, root in enumerate(dict.fromkeys(roots))}
    return np.array([number[root] for root in roots], np.int64)


def drawn_share(unit: NDArray[np.int64], share: float, *, seed: int) -> NDArray[np.bool_]:
    """Draw whole units that have about `share` of the rows; return whether each row is drawn.

    bool [rows]. The share is as near to `share` as the drawn order of units allows; at least one
    unit is drawn, and one is not.

    Args:
        unit: int64 [rows]: unit of each row; there are two units or more.
        share: Share of the rows, above 0 and below 1.
        seed: Seed of the order of units.
    """
    rows_of = np.bincount(unit)
    draws = CounterRng(seed=seed, epoch=0, purpose=RngStream.HELD_OUT)
    order = np.argsort(draws.words(np.arange(len(rows_of))), kind="stable")
    rows = np.cumsum(rows_of[order])[:-1]
    nearest = int(np.abs(rows - share * len(unit)).argmin())
    return np.isin(unit, order[: nearest + 1])
