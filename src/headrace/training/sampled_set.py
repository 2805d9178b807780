"""SampledSet: what is sampled, as it was given: videos, or the rows of a manifest of them."""

import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.errors import MediaError
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerUse
from headrace.training.left_out import warn_left_out
from headrace.training.manifest.manifest import Manifest
from headrace.training.row_set import RowSet
from headrace.training.video_set import VideoSet
from headrace.video.source import Source

Given = Iterable[Source | str | os.PathLike[str]] | Manifest
"""Paths of videos, or a manifest whose rows are sampled as if each were a video."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledSet:
    """Videos that were opened and, of a manifest, its rows on them."""

    videos: VideoSet
    rows: RowSet | None

    @classmethod
    def open(
        cls,
        given: Given,
        *,
        skip_bad: bool,
        store: IndexStore | None,
        rank: int = 0,
        ranks: int = 1,
    ) -> "SampledSet":
        """Open the index of every video; the first rank warns of what is left out.

        Raises as `VideoSet.open` and `RowSet.open` do.
        """
        videos = VideoSet.open(
            given.videos if isinstance(given, Manifest) else given,
            skip_bad=skip_bad,
            store=store,
            rank=rank,
            ranks=ranks,
        )
        rows = None
        of = f"{len(videos.indexes) + len(videos.left_out)} videos"
        if isinstance(given, Manifest):
            rows = RowSet.open(given, videos, skip_bad=skip_bad)
            of += f" and {len(given)} rows"
        opened = cls(videos=videos, rows=rows)
        if rank == 0:
            warn_left_out(opened.left_out, of)
        return opened

    @property
    def left_out(self) -> tuple[MediaError, ...]:
        """Why videos that cannot be read, and rows without a frame, are left out; with the file."""
        return self.videos.left_out + (() if self.rows is None else self.rows.left_out)

    @property
    def population(self) -> Population:
        """The frames that are sampled; of rows, what lies in two of them counts twice."""
        return self.videos.population if self.rows is None else self.rows.rows.population

    def timed_population(self) -> Population:
        """Return the same with durations; 8 bytes a frame."""
        return (self.videos if self.rows is None else self.rows.rows).timed_population()

    @property
    def checksum(self) -> int:
        """A number that others, or another order of them, are most unlikely to share."""
        of_videos = self.videos.checksum
        if self.rows is None:
            return of_videos
        return zlib.crc32(self.rows.rows.checksum.to_bytes(4, "little"), of_videos)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is said of each row."""
        return () if self.rows is None else tuple(self.rows.manifest.columns)

    def use(self, *, batch_size: int | None, ranks: int) -> SamplerUse:
        """Return what a sampler of them is used for."""
        use = self.videos.use(seed=None, batch_size=batch_size, ranks=ranks)
        return use if self.rows is None else self.rows.use(use)

    def frames_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids, among all frames of the videos, of ids in `population`."""
        return places if self.rows is None else self.rows.rows.frames_of(places)

    def said(self, places: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return the row of each frame, by its id in `population`, and its columns by name.

        A number is a number, a label in words that of its class, a text a text.
        """
        which = self.population.video_of(places)
        if self.rows is None:
            return [{"row": int(each)} for each in self.videos.number[which]]
        rows = self.rows.rows.number[which]
        columns = {n: each.tolist() for n, each in self.rows.manifest.values(rows).items()}
        return [
            {"row": int(row), **{name: values[k] for name, values in columns.items()}}
            for k, row in enumerate(rows)
        ]
