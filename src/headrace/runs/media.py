"""What a run reads: videos, or pictures."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.decode.decoding import Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.pictures import PictureFile
from headrace.errors import ConfigError
from headrace.extraction.frames import FrameReader
from headrace.extraction.image_reader import PictureReader
from headrace.runs.options import RunOptions
from headrace.runs.pictures import open_pictures, sort_sources
from headrace.runs.reading import batches_of
from headrace.runs.videos import open_videos
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.marks import NO_MARKS, Marks
from headrace.sinks.annotated_pictures import FOLDER
from headrace.video.stream_index import StreamIndex

Reader = FrameReader | PictureReader
"""What gives the batches of a run."""


@dataclass(frozen=True, kw_only=True)
class Media:
    """What a run reads; one of both is empty."""

    indexes: tuple[StreamIndex, ...] = ()
    """Of the videos, in order."""
    pictures: tuple[PictureFile, ...] = ()
    """In order."""

    @property
    def names(self) -> tuple[str, ...]:
        """The paths, in order."""
        return tuple(str(each.source) for each in self.indexes) or tuple(
            str(each.path) for each in self.pictures
        )

    @property
    def largest(self) -> tuple[int, int]:
        """(height, width) of the largest frame or picture, upright."""
        sizes = [index.info.upright_size for index in self.indexes]
        sizes += [picture.size for picture in self.pictures]
        return max(sizes, key=lambda size: size[0] * size[1])

    def reader(
        self,
        options: RunOptions,
        decoding: Decoding | None = None,
        clock: Clock = SYSTEM_CLOCK,
        marks: Marks = NO_MARKS,
    ) -> Reader:
        """Return what reads them in batches, as the options say; `decoding` in place of theirs."""
        given, batch_size = options.input, options.compute.batch_size
        if self.pictures:
            return PictureReader(
                self.pictures,
                batch_size=batch_size,
                stride=given.stride,
                max_batches=given.max_steps,
                on_error=given.on_error,
                clock=clock,
            )
        return batches_of(
            self.indexes,
            batch_size=batch_size,
            stride=given.stride,
            max_batches=given.max_steps,
            on_error=given.on_error,
            decoding=decoding or options.decoding(),
            clock=clock,
            marks=marks,
        )


def open_media(options: RunOptions, store: IndexStore | None) -> tuple[Media, tuple[str, ...]]:
    """Return what the sources of a run name, and a sentence for each that was left out.

    Pictures are read where boxes are wanted, one by one, but for those in order with a rate.

    Raises:
        MediaError: one cannot be opened and is not to be skipped, or none can.
        ConfigError: the sources name pictures and videos, or something that is no file; an
            annotated picture would replace one that is read; damaged pictures are to be concealed.
    """
    sources, on_error, rate = options.input.sources, options.input.on_error, options.input.rate
    if options.detection is not None and rate is None:
        sources, named = sort_sources(sources, options.output.out / FOLDER)
        if named:
            if on_error == "conceal":
                raise ConfigError(
                    "--on-error conceal is for frames of videos: a damaged picture cannot be shown "
                    "as FFmpeg would; give --on-error skip"
                )
            pictures, notes = open_pictures(named, on_error)
            if options.output.video:
                _check_kept(pictures, options.output.out / FOLDER)
            return Media(pictures=pictures), (*_sizes(pictures), *notes)
    indexes, notes = open_videos(sources, on_error, store, rate=rate)
    return Media(indexes=indexes), notes


def _sizes(pictures: tuple[PictureFile, ...]) -> Iterator[str]:
    sizes = len({picture.size for picture in pictures})
    if sizes > 1:
        yield (
            f"the {len(pictures)} pictures have {sizes} sizes; a batch holds pictures of one size "
            "that follow each other"
        )


def _check_kept(pictures: tuple[PictureFile, ...], folder: Path) -> None:
    for picture in pictures:
        copy = folder / picture.name
        if copy.exists() and copy.samefile(picture.path):
            raise ConfigError(
                f"an annotated picture would replace its source {picture.path}; "
                "give another folder with --out"
            )
