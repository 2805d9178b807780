"""Manifest: a table whose rows are what is sampled, each a video or a part of one."""

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
    """Rows that are sampled: `Manifest.read("labels.csv")`, in place of a list of videos.

        train, test = Manifest.read("labels.csv").split(0.8)
        with ClipLoader(train, clips=RandomClips(num_frames=16, fps=8)) as loader:
            for batch in loader:
                loss = cross_entropy(model(batch.frames), batch.label)

    A row is a video, or the segment of it from `start_seconds` up to, without, `end_seconds`.
    Segments may overlap, and a video may have any number of them. A loader samples rows as it
    samples videos: `RandomClips` takes a clip from each once an epoch, inside the segment. All
    other columns come with each batch, as attributes of it.
    """

    places: RowPlaces
    """Where its rows were written."""
    videos: tuple[Path | Source, ...]
    """The different videos, in the order in which rows first name them: a Source where a row gives
    one, or says which stream of the file is meant; or their proxies."""
    video: NDArray[np.int64]
    """int64 [rows]: place of each row's video among them."""
    segments: tuple[tuple[Fraction, Fraction | None], ...]
    """Of each row: presentation times in seconds, exact as they are written, of the first moment
    that belongs to it, and the first behind it; None: to the end of the video."""
    columns: Mapping[str, Column]
    """Name → [rows], int64, float64 or text, of every column but those of path, stream and time."""
    classes: Mapping[str, tuple[str, ...]]
    """Column of labels in words → the names of its classes, sorted; in batches a label is the place
    of its class among them."""
    numbers: Mapping[str, NDArray[np.int64]]
    """Column of labels in words → int64 [rows]: the place of each row's class."""

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, classes: Classes | None = None) -> "Manifest":
        """Return the manifest that a CSV, .tsv, JSON lines (.jsonl) or Parquet file holds.

        So may a .txt of lines "path label". A file without a line of names has the columns path,
        label, start_seconds, end_seconds, in this order.

        Args:
            path: Paths of videos in it start where it lies.
            classes: Column of labels → its classes, so that two files have the same:
                `Manifest.read("val.csv", classes=train.classes)`. None: those that come.

        Raises:
            ConfigError: it cannot be read, or says what `of_rows` refuses.
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

        Columns with a meaning: `path` (or `video`, `file`, `filename`), which there must be, of
        paths or Sources, such as an ImageSequence; `start_seconds` and `end_seconds`; `stream`,
        where a file has several videos (its number among all streams, or "v:1"); `label` or
        `class` and `label_...`, whose words become class numbers in batches; `weight`, for
        `weights`; `group`, for `split`. Others are passed on. A column of whole numbers is int64,
        one of numbers float64, any other text.

        Args:
            rows: Each from column to value; None, "" and NaN say nothing.
            folder: Where relative paths start.
            classes: As for `read`.
            name: What to call it in messages.

        Raises:
            ConfigError: there is no row, or none of the names of paths; or a row says nothing of
                its path or label, or what cannot be.
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
        heads = dict.fromkeys(head for row in table for head in row)
        check_columns(heads, places.name)
        path = path_column(heads, places.name)
        where = list(map(places.where, range(len(table))))
        paths = [video_of(row, path, folder, at) for row, at in zip(table, where, strict=True)]
        videos = {each: place for place, each in enumerate(dict.fromkeys(paths))}
        rest = [head for head in heads if head not in (path, *CONSUMED)]
        columns = {head: column_of(head, [row.get(head) for row in table], places) for head in rest}
        check_weights(columns.get("weight"), places)
        given = dict(classes or {})
        found = {
            head: class_numbers(head, column, given.pop(head, None), places)
            for head, column in columns.items()
            if is_labels(head) and column.dtype == object
        }
        if given:
            raise ConfigError(
                f"classes of {', '.join(map(str, given))} were given, and {places.name} has no "
                f"such labels in words; it has {', '.join(found) or 'none'}"
            )
        return cls(
            places=places,
            videos=tuple(videos),
            video=np.array([videos[each] for each in paths], np.int64),
            segments=tuple(segment_of(row, at) for row, at in zip(table, where, strict=True)),
            columns=columns,
            classes={head: names for head, (names, _) in found.items()},
            numbers={head: numbers for head, (_, numbers) in found.items()},
        )

    @classmethod
    def of_folders(cls, folder: str | os.PathLike[str]) -> "Manifest":
        """Return the videos of a folder that has a folder for each class, labelled by its name.

        Raises:
            ConfigError: it is no folder, or has videos that lie in none of its folders.
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
        """How many rows there are."""
        return len(self.video)

    def __iter__(self) -> NoReturn:
        raise ConfigError(
            "a Manifest stands in place of videos for loaders and datasets of frames and clips; "
            "elsewhere give its videos: manifest.videos"
        )

    def __repr__(self) -> str:
        said = f"{len(self)} rows of {len(self.videos)} videos"
        return f"Manifest({self.name}: {said}; columns {', '.join(self.columns) or 'none'})"

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return self.places.name

    @property
    def weights(self) -> tuple[float, ...]:
        """How often each row is to come beside the others: the column `weight`, or 1 for each.

        It is for a sampler to take: `RandomClips(..., weights=manifest.weights)`,
        `UniformFrames(over=manifest.weights)`.
        """
        column = self.columns.get("weight")
        return (1.0,) * len(self) if column is None else tuple(map(float, column))

    def balanced(self, column: str = "label") -> tuple[float, ...]:
        """Return weights with which all values of a column come equally often.

        Rows of one value come by `weights`.

        Raises:
            ConfigError: there is no such column, or rows of a value have no weight at all.
        """
        _, place = np.unique(self._column(column).astype(str), return_inverse=True)
        weights = np.array(self.weights)
        total = np.bincount(place, weights)
        if not total.all():
            value = self.columns[column][place == int(total.argmin())][0]
            raise ConfigError(f"all rows of {column} {value!r} have weight 0; leave them out")
        return tuple((weights / total[place]).tolist())

    def with_proxies(self, proxies: Proxies) -> "Manifest":
        """Return the same rows, whose videos are read from their proxies.

        Raises:
            ConfigError: some have no proxy there, or these are no `Proxies`.
            OpenError: an original has changed since its proxy was made.
        """
        if not isinstance(proxies, Proxies):
            raise ConfigError(
                f"with_proxies takes headrace.Proxies(folder), got {type(proxies).__name__}"
            )
        return replace(self, videos=tuple(proxies.all(self.videos)))

    def subset(self, rows: ArrayLike) -> "Manifest":
        """Return some rows: `manifest.subset(manifest.columns["split"] == "train")`.

        Classes stay those of the whole, so that a label means the same.

        Args:
            rows: Places of rows, or a bool for each row.

        Raises:
            ConfigError: they are neither, or none is left.
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
            raise ConfigError(f"row {wrong} was asked for, {self.name} has {len(self)}")
        used, video = np.unique(self.video[chosen], return_inverse=True)
        return replace(
            self,
            places=self.places.chosen(chosen),
            videos=tuple(self.videos[each] for each in used.tolist()),
            video=video.astype(np.int64),
            segments=tuple(self.segments[each] for each in chosen.tolist()),
            columns={name: column[chosen] for name, column in self.columns.items()},
            numbers={name: column[chosen] for name, column in self.numbers.items()},
        )

    def split(self, share: float, *, seed: int = 0) -> tuple["Manifest", "Manifest"]:
        """Return two parts, drawn by chance, of about `share` of the rows and the rest.

        Rows that share a video, or a value of the column `group`, stay together, so that nothing
        of one part is in the other.

        Raises:
            ConfigError: `share` is not between 0 and 1, or all rows belong together.
        """
        wanted = exact_number("share", share)
        check_counts(0, 2**64 - 1, seed=seed)
        if not 0 < wanted < 1:
            raise ConfigError(f"share must be above 0 and below 1, got {share}")
        files = [os.path.realpath(Source.of(each).path) for each in self.videos]
        unit = units_of([files[each] for each in self.video], self.columns.get("group"))
        if not unit.any():
            raise ConfigError(
                f"all rows of {self.name} share a video or group, directly or through others, so "
                "they cannot be split; name more groups"
            )
        is_first = drawn_share(unit, float(wanted), seed=seed)
        return self.subset(is_first), self.subset(~is_first)

    def values(self, rows: NDArray[np.int64]) -> dict[str, Column]:
        """Return what the columns say of some rows; of labels in words, the number of the class."""
        return {name: self.numbers.get(name, column)[rows] for name, column in self.columns.items()}

    def _column(self, name: str) -> Column:
        if not isinstance(name, str) or name not in self.columns:
            raise ConfigError(
                f"{self.name} has no column {name!r}; it has {', '.join(self.columns) or 'none'}"
            )
        return self.columns[name]


def units_of(files: Sequence[str], groups: Column | None) -> NDArray[np.int64]:
    """Return the number of each row's unit, int64 [rows]: units share no file and no group.

    Args:
        files: Of each row.
        groups: Of each row, with nothing for one that belongs to none. None: there are no groups.
    """
    leader: dict[object, object] = {}

    def leader_of(each: object) -> object:
        while leader.setdefault(each, each) != each:
            leader[each] = each = leader[leader[each]]
        return each

    for row, file in enumerate(files):
        if groups is not None and not is_missing(groups[row]):
            leader[leader_of(("group", str(groups[row])))] = leader_of(file)
    found = [leader_of(file) for file in files]
    number = {each: place for place, each in enumerate(dict.fromkeys(found))}
    return np.array([number[each] for each in found], np.int64)


def drawn_share(unit: NDArray[np.int64], share: float, *, seed: int) -> NDArray[np.bool_]:
    """Return which rows are in a share of whole units, drawn by chance; bool [rows].

    As near to `share` of the rows as the units allow, in the order in which they were drawn; on
    each side there is one unit at least.

    Args:
        unit: int64 [rows]: two or more of them.
        share: Above 0 and below 1.
        seed: Another one draws another share.
    """
    rows_of = np.bincount(unit)
    draws = CounterRng(seed=seed, epoch=0, purpose=RngStream.HELD_OUT)
    order = np.argsort(draws.words(np.arange(len(rows_of))), kind="stable")
    rows = np.cumsum(rows_of[order])[:-1]
    nearest = int(np.abs(rows - share * len(unit)).argmin())
    return np.isin(unit, order[: nearest + 1])
