"""The pictures of a run, their headers read before its first one."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from headrace.decode.pictures import (
    SUFFIXES,
    PictureFile,
    find_pictures,
    upright_size,
)
from headrace.decode.protocol import OnError
from headrace.errors import ConfigError, MediaError
from headrace.masking import masked
from headrace.video.manifest import find_videos

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
            f"boxes are found in files, got the address {masked(addresses[0])}; record it to a "
            "file first, as with ffmpeg -i ADDRESS -c copy video.mkv"
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
) -> tuple[tuple[PictureFile, ...], tuple[str, ...]]:
    """Return the pictures with their sizes, and a sentence for each that was left out.

    Raises:
        MediaError: one cannot be opened and `on_error` is `raise`, or none can.
    """
    found, notes = [], []
    first: MediaError | None = None
    for path, name in named:
        try:
            found.append(PictureFile(path=path, name=name, size=upright_size(path)))
        except MediaError as error:
            if on_error == "raise":
                raise
            first = first or error
            notes.append(f"left out: {error}")
    if first is not None and not found:
        raise first
    return tuple(found), tuple(notes)
