"""Inputs of a run: indexed videos or images of known size, and the checks of their decoder."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from headrace.decode.decoder_config import ON_CPU, DecoderConfig, to_option_words, use_option_words
from headrace.decode.image_files import SUFFIXES, ImageFile, find_images, upright_size
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import capabilities_of
from headrace.decode.parallel_scan import scan_ahead
from headrace.decode.protocol import OnError
from headrace.errors import BackendError, ConfigError, MediaError
from headrace.extraction.frame_reader import FrameReader
from headrace.extraction.image_reader import ImageReader
from headrace.loaders.loader_options import check_gpu
from headrace.redaction import masked
from headrace.runs.model_setup import StartupTimer
from headrace.runs.run_options import RunOptions
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.sinks.annotated import FOLDER
from headrace.video.find_videos import find_videos
from headrace.video.image_sequence import source_at
from headrace.video.stream_index import StreamIndex

T = TypeVar("T")
Opened = TypeVar("Opened")
Reader = FrameReader | ImageReader
"""Iterable of the batches of a run."""


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """Videos or images of a run; the other tuple is empty."""

    indexes: tuple[StreamIndex, ...] = ()
    """Indexes of the videos, in reading order."""
    images: tuple[ImageFile, ...] = ()
    """Images, in reading order."""

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of the inputs, in order."""
        if self.images:
            return tuple(str(image.path) for image in self.images)
        return tuple(str(index.source) for index in self.indexes)

    @property
    def largest(self) -> tuple[int, int]:
        """(height, width) of the largest frame or image, upright, in pixels."""
        sizes = [index.info.upright_size for index in self.indexes]
        sizes += [image.size for image in self.images]
        return max(sizes, key=lambda size: size[0] * size[1])

    def reader(
        self,
        options: RunOptions,
        decoding: DecoderConfig | None = None,
        clock: Clock = SYSTEM_CLOCK,
        marks: Tracer = NO_OP_TRACER,
    ) -> Reader:
        """Return the reader of batches; `decoding` overrides the decoder of the options."""
        read, batch_size = options.input, options.compute.batch_size
        if self.images:
            return ImageReader(
                self.images,
                batch_size=batch_size,
                stride=read.stride,
                max_batches=read.max_steps,
                on_error=read.on_error,
                clock=clock,
            )
        return batches_of(
            self.indexes,
            batch_size=batch_size,
            stride=read.stride,
            max_batches=read.max_steps,
            on_error=read.on_error,
            decoding=decoding or options.decoding(),
            clock=clock,
            marks=marks,
        )


def open_inputs(options: RunOptions, store: IndexStore | None) -> tuple[RunInputs, tuple[str, ...]]:
    """Return the inputs of the sources, and notes on skipped and faulty files.

    A detector takes single images, unless a frame rate makes them an image sequence.

    Raises:
        MediaError: a file cannot be opened and `on_error` is `raise`, or no file can be opened.
        ConfigError: sources contain both images and videos, or a live source; an annotated image
            would replace its source; `on_error` is `conceal`, which images do not support; the rate
            is not a number above 0.
    """
    sources, on_error, rate = options.input.sources, options.input.on_error, options.input.rate
    if options.detection is not None and rate is None:
        sources, paths = _split_sources(sources, options.output.out / FOLDER)
        if paths:
            if on_error == "conceal":
                raise ConfigError(
                    "--on-error conceal is for videos: FFmpeg conceals no damage in images; "
                    "give --on-error skip"
                )
            images, notes = _open_all(paths, _open_image, on_error)
            if options.output.video:
                _check_not_replaced(images, options.output.out / FOLDER)
            sizes = len({image.size for image in images})
            if sizes > 1:
                note = (
                    f"the {len(images)} images have {sizes} sizes; a batch holds consecutive "
                    "images of one size"
                )
                notes = (note, *notes)
            return RunInputs(images=images), notes
    videos = [source_at(source, rate=rate) for source in sources]
    open_video = scan_ahead(videos, store or IndexStore(), raises=on_error == "raise")
    indexes, notes = _open_all(videos, open_video, on_error)
    problems = (f"{index.source}: {problem}" for index in indexes for problem in index.problems)
    return RunInputs(indexes=indexes), (*notes, *problems)


def _check_not_replaced(images: tuple[ImageFile, ...], folder: Path) -> None:
    for image in images:
        copy = folder / image.name
        if copy.exists() and copy.samefile(image.path):
            raise ConfigError(
                f"an annotated image would replace its source {image.path}; "
                "give another folder with --out"
            )


LEFT_OUT: Final = "left out: "
"""Prefix of a note on a skipped source."""
_MAX_SOURCES_IN_ERRORS: Final = 3
"""Max sources named in an error."""


def _split_sources(
    sources: Sequence[str], results: Path
) -> tuple[tuple[str, ...], list[tuple[Path, str]]]:
    """Return the videos and the images of sources; one of the two is empty.

    `find_images` decides which files are images. Each image has the name of its annotated
    copy: the path relative to the given folder, with a number if the name is taken.

    Args:
        sources: Files and folders.
        results: Folder of annotated images; its files are never sources.

    Raises:
        ConfigError: sources contain both images and videos, neither, or a live source.
    """
    addresses = [source for source in sources if "://" in source]
    if addresses:
        raise ConfigError(
            f"{masked(addresses[0])} is a live source, and this run reads files; "
            "use LiveRunner for live sources"
        )
    images = _with_unique_names(_find_images(sources, results))
    videos = list(_find_other_videos(sources, {path for path, _ in images}))
    if images and videos:
        raise ConfigError(
            f"images ({images[0][0]}) and videos ({videos[0]}) cannot be annotated in one run; "
            "give them in two runs, each with its own --out"
        )
    if not images and not videos:
        raise ConfigError(
            f"no image ({' '.join(sorted(SUFFIXES))}) or video found in "
            f"{' and '.join(sources[:_MAX_SOURCES_IN_ERRORS])}; give the files themselves"
        )
    return tuple(map(str, videos)), images


def _find_images(sources: Sequence[str], results: Path) -> Iterator[tuple[Path, str]]:
    """Yield each image once, with its path relative to the given folder."""
    seen: set[Path] = set()
    for source in map(Path, sources):
        for path in find_images(source):
            absolute = path.absolute()
            is_result = absolute.is_relative_to(results.absolute()) and source.is_dir()
            if absolute in seen or is_result:
                continue
            seen.add(absolute)
            yield path, path.relative_to(source).as_posix() if source.is_dir() else path.name


def _with_unique_names(images: Iterable[tuple[Path, str]]) -> list[tuple[Path, str]]:
    taken: set[str] = set()
    renamed = []
    for path, name in images:
        suffix = PurePosixPath(name).suffix
        stem = name.removesuffix(suffix)
        if suffix.lower() not in SUFFIXES:  # recognized as an image by its content
            stem, suffix = name, ".png"
        unique, number = f"{stem}{suffix}", 1
        while unique.lower() in taken:  # some file systems ignore case
            number += 1
            unique = f"{stem}-{number}{suffix}"
        taken.add(unique.lower())
        renamed.append((path, unique))
    return renamed


def _find_other_videos(sources: Sequence[str], images: Collection[Path]) -> Iterator[Path]:
    for path in map(Path, sources):
        if path in images:
            continue
        if not path.is_dir():
            yield from find_videos([path])
            continue
        with suppress(ConfigError):  # a folder without videos
            yield from (video for video in find_videos([path]) if video not in images)


def _open_image(image: tuple[Path, str]) -> ImageFile:
    path, name = image
    return ImageFile(path=path, name=name, size=upright_size(path))


def _open_all(
    sources: Sequence[T], open_one: Callable[[T], Opened], on_error: OnError
) -> tuple[tuple[Opened, ...], tuple[str, ...]]:
    """Return the opened sources, and a note for each skipped one."""
    opened, errors = list[Opened](), list[MediaError]()
    for source in sources:
        try:
            opened.append(open_one(source))
        except MediaError as error:
            if on_error == "raise":
                raise
            errors.append(error)
    if errors and not opened:
        raise errors[0]
    return tuple(opened), tuple(f"{LEFT_OUT}{error}" for error in errors)


_AHEAD_BYTES: Final = 1 << 30
"""Bytes of decoded frames that may wait for the model; more for batches of large frames."""


def batches_of(
    indexes: Sequence[StreamIndex],
    *,
    batch_size: int,
    stride: int = 1,
    max_batches: int | None = None,
    on_error: OnError = "raise",
    decoding: DecoderConfig = ON_CPU,
    clock: Clock = SYSTEM_CLOCK,
    marks: Tracer = NO_OP_TRACER,
) -> FrameReader:
    """Return the `FrameReader` of the videos, one after the other."""
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


_MAX_FILES_IN_NOTES: Final = 100
"""Max files named in the notes of a run."""


def check_decoder(options: RunOptions) -> None:
    """Check that the decoder exists and fits the other options. Does not initialize CUDA.

    Raises:
        ConfigError: options contradict each other.
        BackendError: a GPU or a package is missing.
    """
    name, decoding = options.input.decode, options.decoding()
    if decoding.keeps_on_device and decoding.gpu:
        raise ConfigError(
            f"--decode {name} leaves frames on GPU {decoding.gpu}, and --prep-on-gpu preprocesses "
            "them on GPU 0; give --decode cuda, with CUDA_VISIBLE_DEVICES for another GPU, or "
            "leave --prep-on-gpu out"
        )
    if decoding.backend == "torchcodec" and options.input.on_error == "conceal":
        raise ConfigError(
            "--on-error conceal needs a decoder that reports damaged frames, and --decode "
            f"{name} does not; leave --decode out, or give --on-error skip"
        )
    with use_option_words():
        check_gpu(decoding.gpu)
        capabilities_of(decoding)


def check_inputs(inputs: RunInputs, options: RunOptions) -> None:
    """Check that the decoder supports every input, by its index.

    Raises:
        ConfigError: inputs are images, which only the CPU decodes.
        BackendError: the decoder does not support a video.
    """
    name, decoding = options.input.decode, options.decoding()
    if inputs.images and decoding != ON_CPU:
        raise ConfigError(
            f"--decode {name} is for videos, and {inputs.images[0].path} is an image; leave "
            "--decode out"
        )
    capabilities = capabilities_of(decoding)
    for index in inputs.indexes:
        try:
            capabilities.check(decoding, index)
        except BackendError as error:
            if options.input.rate is not None:
                raise ConfigError(
                    f"--decode {name} is for videos, and {index.source} is an image sequence "
                    "(--framerate); leave --decode out"
                ) from error
            raise BackendError(to_option_words(str(error))) from error


def try_decoder(
    indexes: Sequence[StreamIndex], decoding: DecoderConfig, timer: StartupTimer
) -> None:
    """Decode one frame of the first video of each codec; do nothing if the CPU may decode.

    So a driver without a codec is an error before any result is written. The run itself handles
    damaged files.

    Raises:
        BackendError: the device cannot decode a codec.
    """
    if decoding == ON_CPU or decoding.is_auto:
        return
    first_of_codec = {index.info.codec: index for index in reversed(indexes)}
    for index in first_of_codec.values():
        reader = batches_of([index], batch_size=1, max_batches=1, decoding=decoding)
        with (
            timer.part("decoder"),
            use_option_words(),
            suppress(MediaError),
            closing(iter(reader)) as batches,
        ):
            next(batches, None)


def decoding_notes(batches: Reader) -> tuple[str, ...]:
    """Return notes on `--decode auto`: jobs per device, and why a file was decoded by the CPU."""
    if isinstance(batches, ImageReader) or batches.decoded_by is None:
        return ()
    counters = batches.decoded_by
    files = [f"decoded by the CPU: {file}: {reason}" for file, reason in counters.on_cpu.items()]
    excess = len(files) - _MAX_FILES_IN_NOTES
    more = [f"and {excess} more files"] if excess > 0 else []
    return (
        f"decoded by {replace(counters, on_cpu={})}",
        *files[:_MAX_FILES_IN_NOTES],
        *more,
    )
