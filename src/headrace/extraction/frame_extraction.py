"""Frames of videos as pictures: what may be asked, how it is planned, what it would come to."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from headrace.decode.decoder_config import DecoderConfig
from headrace.errors import ConfigError
from headrace.extraction.extraction import Extraction
from headrace.extraction.extraction_options import ExtractionOptions
from headrace.extraction.extraction_plan import ExtractionPlan, PixelEstimate, Progress, Wanted
from headrace.extraction.frame_table import NAME, write_table
from headrace.extraction.frame_worker import extract_frames, rows_of
from headrace.extraction.image_encoder import ImageEncoder
from headrace.extraction.journal import Journal, JournalEntry, Lost, Outcome
from headrace.extraction.pilot import pilot, pixels_of
from headrace.extraction.videos import frame_file
from headrace.extras import check_extra
from headrace.planning.chunks import Chunk, chunks_of
from headrace.profiling.number_format import counted
from headrace.profiling.provenance import Scalar
from headrace.profiling.stage_records import Role
from headrace.runtime.child_spec import ChildFunction
from headrace.sampling.selection import Selection
from headrace.video.stream_index import StreamIndex

_CHUNK_PIXELS: Final = 1e9
"""Pixels decoded and encoded in a chunk, about: seconds of work, so that workers end together."""
_SAMPLES: Final = 6
"""Pictures that are made to estimate the rest."""


@dataclass(frozen=True, kw_only=True)
class FrameExtractionOptions(ExtractionOptions):
    """Which frames of which videos, as which pictures, and how it is done."""

    kind: ClassVar[str] = "frames"
    selection: Selection
    """Which frames."""
    pictures: ImageEncoder = field(default_factory=ImageEncoder)

    def _asked(self) -> dict[str, Scalar]:
        first = dict.fromkeys(("format", "quality", "size"))
        return {"frames": str(self.selection), **first, **self.pictures.asked()}

    def _means(self) -> dict[str, Scalar]:
        return {
            **super()._means(),
            "rate": self.rate,
            "decode": DecoderConfig.parse(self.decode).name,
        }


@dataclass(frozen=True, kw_only=True)
class FrameEstimate(PixelEstimate):
    """Size and time of the image files of an extraction."""

    least_bytes: int | None
    most_bytes: int | None
    """Bytes of the smallest and the largest sample."""

    @property
    def contents(self) -> str:
        """The output in words."""
        return f"{counted(self.frames, 'picture')} of {counted(self.videos, 'video')}"

    @property
    def size_basis(self) -> str:
        """What the size is estimated from, in words."""
        least, most = (self.least_bytes or 0) / 1e3, (self.most_bytes or 0) / 1e3
        return f"estimated from {counted(self.samples, 'sample')} of {least:.0f} to {most:.0f} kB"


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameExtraction(Extraction[FrameExtractionOptions]):
    """An extraction of pictures that can begin: `FrameExtraction.prepare(options).run()`."""

    noun: ClassVar[str] = "picture"
    roles: ClassVar[Mapping[str, Role]] = {"decode": "decode", "encode": "sink", "write": "sink"}
    concealed: ClassVar[str] = "the file is damaged there; the picture is what FFmpeg shows instead"
    outputs: ClassVar[tuple[str, ...]] = (NAME,)
    function: ChildFunction = field(default=extract_frames)

    @classmethod
    def check(cls, options: FrameExtractionOptions) -> None:
        """Check that pictures and their table can be written: see `Extraction.check`."""
        check_extra("parquet", f"the table of the frames, {NAME},")
        options.pictures.check()

    @classmethod
    def cut(
        cls, options: FrameExtractionOptions, video: int, index: StreamIndex
    ) -> tuple[Wanted, list[Chunk]]:
        """Return the frames that were selected, and chunks of about the same work."""
        wanted, size = options.selection.of(index), index.info.upright_size
        size = options.shape.output_size(size)
        options.pictures.check_size(size, str(index.source))
        cost = options.pictures.cost_of(size)
        return wanted, chunks_of(video, index, wanted, frame_cost=cost, max_cost=_CHUNK_PIXELS)

    def __post_init__(self) -> None:
        if not self.plan.chunks:
            raise ConfigError(
                f"no frame of {next(iter(self.plan.indexes.values())).source} is wanted by "
                f"{str(self.options.selection)!r}; ask for others, as with --every 1"
            )

    def outcome_of(self, entry: JournalEntry) -> Outcome:
        """Return what became of a chunk, by its entry in the journal."""
        return Outcome(
            came=len(entry.files),
            lost=tuple(Lost(*lost) for lost in entry.facts["lost"]),
            concealed=tuple(row.index for row in rows_of(entry) if row.is_concealed),
        )

    def came_in(self, entry: JournalEntry) -> Collection[int]:
        """Return the frames that there are pictures of."""
        return [row.index for row in rows_of(entry)]

    def finish(self, journal: Journal, progress: Progress) -> None:
        """Remove pictures that no entry tells of; write the table, where nothing is left to do."""
        plan, entries = self.plan, progress.entries
        for name in progress.failed:
            chunk = plan.by_name[name]
            for lost in progress.begun[name].lost:
                video, index = plan.request.videos[chunk.video].name, plan.indexes[chunk.video]
                file = frame_file(self.options.pictures, video, index, lost.index)
                with suppress(OSError):
                    (journal.folder / file).unlink()
        if not progress.without(plan.chunks):
            rows = (
                (chunk.video, row)
                for chunk in plan.chunks
                if chunk.name in entries
                for row in rows_of(entries[chunk.name])
            )
            write_table(journal.folder / NAME, rows, plan.indexes, plan.request.videos)

    def estimate(self) -> FrameEstimate:
        """Return how many pictures, how large and how long: makes up to 6, and keeps none."""
        plan, size_of = self.plan, self.options.shape.output_size
        pieces = _pieces(plan)
        made = pilot(self, pieces, size_of)
        sizes = {number: index.info.upright_size for number, index in plan.indexes.items()}
        pixels = sum(pixels_of(size_of(sizes[each.video])) * each.frames for each in plan.chunks)
        decoded = sum(pixels_of(sizes[each.video]) * each.decoded for each in plan.chunks)
        seconds = made.seconds(pixels, decoded)
        return FrameEstimate(
            videos=len(plan.indexes),
            frames=plan.total,
            samples=len(made.sizes),
            num_bytes=made.num_bytes(pixels),
            least_bytes=min(made.sizes, default=None),
            most_bytes=max(made.sizes, default=None),
            seconds=None if seconds is None else seconds / self.workers,
            workers=self.workers,
            failures=tuple(
                f"a sample of {plan.path_of(piece)}, frame {piece.start}, could not be made: "
                f"{made.failed[piece.name]}"
                for piece in pieces
                if piece.name in made.failed
            ),
        )


def _pieces(plan: ExtractionPlan) -> list[Chunk]:
    """Return single frames all over the plan."""
    places = np.unique(np.linspace(0, plan.total - 1, _SAMPLES).round().astype(int))
    ends = np.cumsum([len(wanted) for wanted in plan.wanted.values()])
    found = []
    for place in places.tolist():
        k = int(np.searchsorted(ends, place, "right"))
        video, wanted = list(plan.wanted.items())[k]
        number = int(wanted[place - int(ends[k])])  # counted from its end
        found.append(Chunk(video=video, start=number, stop=number + 1, frames=1))
    return found
