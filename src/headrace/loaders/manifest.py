"""Manifest: a table of samples; each row is a video or a segment of one."""

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
from headrace.video.find_videos import find_videos
from headrace.video.source import Source
from headrace.video.timebase import exact_number
from headrace.video.video_table import path_column


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Manifest:
    """Rows to sample: `Manifest.read("labels.csv")`, in place of a list of videos.

        train, test = Manifest.read("labels.csv").split(0.8)
        with ClipLoader(train, clips=RandomClips(num_frames=16, fps=8)) as loader:
            for batch in loader:
                loss = cross_entropy(model(batch.frames), batch.label)

    A row is a video, or its segment [start_seconds, end_seconds). Segments may overlap, and a video
    may have any number of them. A loader samples rows like videos: `RandomClips` takes a clip from
    each row once an epoch, inside the segment. All other columns are entries of each batch.
    """

    places: RowPlaces
    """File or name, and line, of each row."""
    videos: tuple[Path | Source, ...]
    """The different videos, in the order of their first rows: a Source if a row has one or selects
    a stream of the file; or their proxies."""
    video: NDArray[np.int64]
    """int64 [rows]: position of each row's video in `videos`."""
    segments: tuple[tuple[Fraction, Fraction | None], ...]
    """Segment [start, end) of each row: presentation times in seconds, exact as they are written;
    an end of None is the end of the video."""
    columns: Mapping[str, Column]
    """Name → [rows], int64, float64 or text, of every column except path, stream and times."""
    classes: Mapping[str, tuple[str, ...]]
    """Column of text labels → the names of its classes, sorted; in batches, a label is an index
    into them."""
    numbers: Mapping[str, NDArray[np.int64]]
    """Column of text labels → int64 [rows]: the class number of each row."""

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, classes: Classes | None = None) -> "Manifest":
        """Return the manifest in a CSV, .tsv, JSON lines (.jsonl) or Parquet file.

        A .txt file of lines "path label" is read too. A file without a header line has the columns
        path, label, start_seconds, end_seconds, in this order.

        Args:
            path: The file; relative paths of videos start in its folder.
            classes: Column of labels → its classes, so that two files have the same:
                `Manifest.read("val.csv", classes=train.classes)`. None: the labels in the file.

        Raises:
            ConfigError: the file cannot be read, or `of_rows` refuses its rows.
            BackendError: it is Parquet, and pyarrow is not installed.
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
        """Return the manifest of rows that are dicts: `Manifest.of_rows(frame.to_dict("records"))`.

        Columns with a meaning: `path` (or `video`, `file`, `filename`), required: paths or Sources,
        such as an ImageSequence; `start_seconds` and `end_seconds`; `stream`, for a file of several
        videos (its number among all streams, or "v:1"); `label` or `class` and `label_...`, whose
        words become class numbers in batches; `weight`, for `weights`; `group`, for `split`. Other
        columns are passed on. A column of whole numbers is int64, of numbers float64, any other
        text.

        Args:
            rows: Dicts from column to value; None, "" and NaN are missing values.
            folder: Folder in which relative paths start.
            classes: As for `read`.
            name: Name of the manifest in messages.

        Raises:
            ConfigError: there is no row, or no column of paths; or a path or label is missing or
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
                f"classes of {', '.join(map(str, given))} were given, and {places.name} has no "
                f"such labels in words; it has {', '.join(labels) or 'none'}"
            )
        return cls(
            places=places,
            videos=tuple(videos),
            video=np.array([videos[video] for video in paths], np.int64),
            segments=tuple(segment_of(row, at) for row, at in zip(table, where, strict=True)),
            columns=columns,
            classes={name: classes for name, (classes, _) in labels.items()},
            numbers={name: numbers for name, (_, numbers) in labels.items()},
        )

    @classmethod
    def of_folders(cls, folder: str | os.PathLike[str]) -> "Manifest":
        """Return the videos of a folder with one folder for each class, labelled by its name.

        Raises:
            ConfigError: it is no folder, or holds videos outside of its folders.
        """
        top = named_path(folder, "a folder")
        if not top.is_dir():
            raise ConfigError(f"a folder with a folder for each class is needed, got {top}")
        rows: list[dict[str, Any]] = []
        for video in find_videos([top]):
            label, *rest = video.relative_to(top).parts
            if not rest:
                raise ConfigError(
                    f"{video} lies in no folder of {top}, so it has no class; move it"
                )
            rows.append({"path": video, "label": label})
        return cls.of_rows(rows, name=str(top))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.video)

    def __iter__(self) -> NoReturn:
        raise ConfigError(
            "a Manifest stands in place of videos for loaders and datasets of frames and clips; "
            "elsewhere give its videos: manifest.videos"
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
        """Relative frequency of each row: the column `weight`, or 1 for each.

        A sampler takes them: `RandomClips(..., weights=manifest.weights)`,
        `UniformFrames(over=manifest.weights)`.
        """
        column = self.columns.get("weight")
        return (1.0,) * len(self) if column is None else tuple(map(float, column))

    def balanced(self, column: str = "label") -> tuple[float, ...]:
        """Return weights with which all values of a column are equally frequent.

        Rows of one value share its frequency by `weights`.

        Raises:
            ConfigError: the column is missing, or all rows of a value have weight 0.
        """
        _, value_of_row = np.unique(self._column(column).astype(str), return_inverse=True)
        weights = np.array(self.weights)
        total = np.bincount(value_of_row, weights)
        if not total.all():
            value = self.columns[column][value_of_row == int(total.argmin())][0]
            raise ConfigError(f"all rows of {column} {value!r} have weight 0; leave them out")
        return tuple((weights / total[value_of_row]).tolist())

    def with_proxies(self, proxies: Proxies) -> "Manifest":
        """Return the same rows, with videos read from their proxies.

        Raises:
            ConfigError: a video has no proxy, or `proxies` is no `Proxies`.
            OpenError: an original has changed since its proxy was made.
        """
        if not isinstance(proxies, Proxies):
            raise ConfigError(
                f"with_proxies takes headrace.Proxies(folder), got {type(proxies).__name__}"
            )
        return replace(self, videos=tuple(proxies.all(self.videos)))

    def subset(self, rows: ArrayLike) -> "Manifest":
        """Return some rows: `manifest.subset(manifest.columns["split"] == "train")`.

        Classes stay those of the full manifest, so that a label means the same.

        Args:
            rows: Positions of rows, or a bool for each row.

        Raises:
            ConfigError: `rows` is neither, out of range or empty.
        """
        try:
            chosen = np.asarray(rows)
        except ValueError as error:
            raise ConfigError(
                f"rows must be places of rows, or a bool for each: {error}"
            ) from error
        if chosen.dtype == np.bool_ and chosen.shape == (len(self),):
            chosen = np.flatnonzero(chosen)
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
            raise ConfigError(
                f"rows must be places in a manifest of {len(self)} rows, or a bool for each, got "
                f"{chosen.dtype} {[*chosen.shape]}"
            )
        if not len(chosen):
            raise ConfigError(f"no row of {self.name} was chosen; choose at least one")
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
        """Return a random part of about `share` of the rows, and the rest.

        Rows with the same video, or the same value of the column `group`, stay together, so that
        the parts share nothing.

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
                "they cannot be split; name more groups"
            )
        is_first = drawn_share(unit, float(wanted), seed=seed)
        return self.subset(is_first), self.subset(~is_first)

    def values(self, rows: NDArray[np.int64]) -> dict[str, Column]:
        """Return the columns of some rows; a text label as the number of its class."""
        return {name: self.numbers.get(name, column)[rows] for name, column in self.columns.items()}

    def _column(self, name: str) -> Column:
        if not isinstance(name, str) or name not in self.columns:
            raise ConfigError(
                f"{self.name} has no column {name!r}; it has {', '.join(self.columns) or 'none'}"
            )
        return self.columns[name]


def units_of(files: Sequence[str], groups: Column | None) -> NDArray[np.int64]:
    """Return the unit of each row, int64 [rows]: different units share no file and no group.

    Args:
        files: File of each row.
        groups: Group of each row, or a missing value; None: no row has a group.
    """
    leader: dict[object, object] = {}

    def leader_of(member: object) -> object:
        while leader.setdefault(member, member) != member:
            leader[member] = member = leader[leader[member]]
        return member

    for row, file in enumerate(files):
        if groups is not None and not is_missing(groups[row]):
            leader[leader_of(("group", str(groups[row])))] = leader_of(file)
    leaders = [leader_of(file) for file in files]
    number = {unit: position for position, unit in enumerate(dict.fromkeys(leaders))}
    return np.array([number[unit] for unit in leaders], np.int64)


def drawn_share(unit: NDArray[np.int64], share: float, *, seed: int) -> NDArray[np.bool_]:
    """Return which rows are in a random share of whole units; bool [rows].

    The share is as near to `share` of the rows as the drawn order of units allows; each side has
    at least one unit.

    Args:
        unit: int64 [rows]: unit of each row; there are two or more.
        share: Share of the rows, above 0 and below 1.
        seed: Seed of the order of units.
    """
    rows_of = np.bincount(unit)
    draws = CounterRng(seed=seed, epoch=0, purpose=RngStream.HELD_OUT)
    order = np.argsort(draws.words(np.arange(len(rows_of))), kind="stable")
    rows = np.cumsum(rows_of[order])[:-1]
    nearest = int(np.abs(rows - share * len(unit)).argmin())
    return np.isin(unit, order[: nearest + 1])
