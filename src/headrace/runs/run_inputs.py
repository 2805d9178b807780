"""Inputs of a run: videos, indexed, or pictures, their headers read."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.image_files import (
    SUFFIXES,
    ImageFile,
    find_pictures,
    upright_size,
)
from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import scan_ahead
from headrace.decode.protocol import OnError
from headrace.errors import ConfigError, MediaError
from headrace.extraction.frame_reader import FrameReader
from headrace.extraction.image_reader import ImageReader
from headrace.redaction import masked
from headrace.runs.run_options import RunOptions
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.tracing import NO_MARKS, Tracer
from headrace.sinks.annotated import FOLDER
from headrace.video.find_videos import find_videos
from headrace.video.image_sequence import Rate, source_at
from headrace.video.stream_index import StreamIndex

Reader = FrameReader | ImageReader
"""What gives the batches of a run."""


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """What a run reads; one of both is empty."""

    indexes: tuple[StreamIndex, ...] = ()
    """Of the videos, in order."""
    pictures: tuple[ImageFile, ...] = ()
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
        decoding: DecoderConfig | None = None,
        clock: Clock = SYSTEM_CLOCK,
        marks: Tracer = NO_MARKS,
    ) -> Reader:
        """Return what reads them in batches, as the options say; `decoding` in place of theirs."""
        given, batch_size = options.input, options.compute.batch_size
        if self.pictures:
            return ImageReader(
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


def open_media(options: RunOptions, store: IndexStore | None) -> tuple[RunInputs, tuple[str, ...]]:
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
            return RunInputs(pictures=pictures), (*_sizes(pictures), *notes)
    indexes, notes = open_videos(sources, on_error, store, rate=rate)
    return RunInputs(indexes=indexes), notes


def _sizes(pictures: tuple[ImageFile, ...]) -> Iterator[str]:
    sizes = len({picture.size for picture in pictures})
    if sizes > 1:
        yield (
            f"the {len(pictures)} pictures have {sizes} sizes; a batch holds pictures of one size "
            "that follow each other"
        )


def _check_kept(pictures: tuple[ImageFile, ...], folder: Path) -> None:
    for picture in pictures:
        copy = folder / picture.name
        if copy.exists() and copy.samefile(picture.path):
            raise ConfigError(
                f"an annotated picture would replace its source {picture.path}; "
                "give another folder with --out"
            )


_SHOWN: Final = 3


def sort_sources(
    sources: Sequence[str], results: Path
) -> tuple[tuple[str, ...], list[tuple[Path, str]]]:
    """Return the videos that sources name, and the pictures; one of both is empty.

    What is a picture `find_pictures` says. Each comes with the name of its annotated copy: that
    below the folder that was given; where two would be the same, the later one gets a number.

    Args:
        sources: Files and folders.
        results: Folder of annotated pictures, whose content is never a source.

    Raises:
        ConfigError: they name both, or neither, or a stream.
    """
    addresses = [source for source in sources if "://" in source]
    if addresses:
        raise ConfigError(
            f"{masked(addresses[0])} comes as it comes, and files are read here; prepare it by "
            "LiveRunner"
        )
    pictures = _with_names(_pictures(sources, results))
    videos = list(_videos(sources, {path for path, _ in pictures}))
    if pictures and videos:
        raise ConfigError(
            f"pictures ({pictures[0][0]}) and videos ({videos[0]}) cannot be annotated in one run; "
            "give them in two, with a folder of results each"
        )
    if not pictures and not videos:
        raise ConfigError(
            f"{' and '.join(sources[:_SHOWN])} holds no file that is named like a picture "
            f"({' '.join(sorted(SUFFIXES))}) or a video; name the files themselves"
        )
    return tuple(map(str, videos)), pictures


def _pictures(sources: Sequence[str], results: Path) -> Iterator[tuple[Path, str]]:
    """Yield each picture once, with the name it has below the folder that was given."""
    seen: set[Path] = set()
    for source in map(Path, sources):
        for path in find_pictures(source):
            whole = path.absolute()
            if whole in seen or (whole.is_relative_to(results.absolute()) and source.is_dir()):
                continue
            seen.add(whole)
            yield path, path.relative_to(source).as_posix() if source.is_dir() else path.name


def _with_names(pictures: Iterable[tuple[Path, str]]) -> list[tuple[Path, str]]:
    taken: set[str] = set()
    found = []
    for path, name in pictures:
        suffix = PurePosixPath(name).suffix
        stem = name.removesuffix(suffix)
        if suffix.lower() not in SUFFIXES:  # a picture by its content alone
            stem, suffix = name, ".png"
        chosen, number = f"{stem}{suffix}", 1
        while chosen.lower() in taken:  # some file systems do not tell A.png from a.png
            number += 1
            chosen = f"{stem}-{number}{suffix}"
        taken.add(chosen.lower())
        found.append((path, chosen))
    return found


def _videos(sources: Sequence[str], pictures: Collection[Path]) -> Iterator[Path]:
    for path in map(Path, sources):
        if path in pictures:
            continue
        if not path.is_dir():
            yield from find_videos([path])
            continue
        with suppress(ConfigError):  # none in it
            yield from (each for each in find_videos([path]) if each not in pictures)


def open_pictures(
    named: Sequence[tuple[Path, str]], on_error: OnError
) -> tuple[tuple[ImageFile, ...], tuple[str, ...]]:
    """Return the pictures with their sizes, and a sentence for each that was left out.

    Raises:
        MediaError: one cannot be opened and `on_error` is `raise`, or none can.
    """
    found, notes = [], []
    first: MediaError | None = None
    for path, name in named:
        try:
            found.append(ImageFile(path=path, name=name, size=upright_size(path)))
        except MediaError as error:
            if on_error == "raise":
                raise
            first = first or error
            notes.append(f"left out: {error}")
    if first is not None and not found:
        raise first
    return tuple(found), tuple(notes)


def open_videos(
    sources: Sequence[str],
    on_error: OnError,
    store: IndexStore | None,
    *,
    rate: Rate | None = None,
) -> tuple[tuple[StreamIndex, ...], tuple[str, ...]]:
    """Return the indexes of the videos, and a sentence for each that was left out, or is faulty.

    With a rate, sources are pictures in order.

    Raises:
        MediaError: one cannot be opened as video and `on_error` is `raise`, or none can.
        ConfigError: the rate is none.
    """
    indexes, notes = [], []
    first: MediaError | None = None
    videos = [source_at(source, rate=rate) for source in sources]
    open_one = scan_ahead(videos, store or IndexStore(), raises=on_error == "raise")
    for video in videos:
        try:
            index = open_one(video)
        except MediaError as error:
            if on_error == "raise":
                raise
            first = first or error
            notes.append(f"left out: {error}")
        else:
            indexes.append(index)
            notes += [f"{video}: {problem}" for problem in index.problems]
    if first is not None and not indexes:
        raise first
    return tuple(indexes), tuple(notes)


_AHEAD_BYTES: Final = 1 << 30
"""Of decoded frames that may wait for the model."""


def batches_of(
    indexes: Sequence[StreamIndex],
    *,
    batch_size: int,
    stride: int = 1,
    max_batches: int | None = None,
    on_error: OnError = "raise",
    decoding: DecoderConfig = ON_CPU,
    clock: Clock = SYSTEM_CLOCK,
    marks: Tracer = NO_MARKS,
) -> FrameReader:
    """Return what reads the videos one after the other, in batches: see `FrameReader`.

    It opens all decoders of a run.
    """
    sizes = [index.info.upright_size for index in indexes]
    largest = max(height * width for height, width in sizes)
    return FrameReader(
        indexes,
        batch_size=batch_size,
        stride=stride,
        max_batches=max_batches,
        memory_budget=max(_AHEAD_BYTES, 4 * batch_size * largest * 3),
        on_error=on_error,
        decoding=decoding,
        clock=clock,
        marks=marks,
    )
