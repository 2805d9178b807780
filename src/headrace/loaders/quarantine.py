"""Quarantine: bad frames and videos, kept in a file so that the next run leaves them alone."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import ConfigError, DecodeError, MediaError, OpenError
from headrace.loaders.video_set import VideoSet
from headrace.video.frame_loss import FrameLoss
from headrace.video.source import FileStat, ProxySource, Source, Stream
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class BadFile:
    """A file, and the frames that are bad because of it."""

    source: Source
    fingerprint: FileStat
    frames: list[int] | None
    """Indices; None: all of the video."""


def blamed(index: StreamIndex, frames: Sequence[int] | None) -> list[BadFile]:
    """Return the files to blame for bad frames of a video; None: for all of it.

    What was damaged in the original when its proxy was made is bad in the original; all else that
    is wrong with a proxy is no fault of the original, which can be read as ever. A file that is
    gone is not among them.
    """
    if not isinstance(index, ProxyIndex):
        everything = None if frames is None else [*frames]
        return [BadFile(source=index.source, fingerprint=index.fingerprint, frames=everything)]
    found: list[BadFile] = []
    lost = [each for each in frames or () if each in index.lost]
    if lost:
        found.append(BadFile(source=index.source, fingerprint=index.fingerprint, frames=lost))
    others = None if frames is None else [each for each in frames if each not in index.lost]
    proxy = file_read(index.source)
    fingerprint = None if others == [] else version_of(index, proxy)
    if fingerprint is not None:
        found.append(BadFile(source=proxy, fingerprint=fingerprint, frames=others))
    return found


def files_behind(index: StreamIndex) -> list[Source]:
    """Return the files that may be to blame for bad frames of a video."""
    read = file_read(index.source)
    return [index.source] if read is index.source else [index.source, read]


def version_of(index: StreamIndex, source: Source) -> FileStat | None:
    """Return the version of one of `files_behind` that is read now; None: it is gone."""
    if source is index.source:
        return index.fingerprint
    try:
        return source.fingerprint()
    except OpenError:
        return None


def file_read(source: Source) -> Source:
    """Return the file that is read for a video: itself, or its proxy."""
    return Source(source.proxy) if isinstance(source, ProxySource) else source


_BEGINNING = '{"source"'
"""Of every entry."""

_Places = dict[tuple[str, Stream | None], list[tuple[int, Source]]]
"""Path and stream of a file → the videos that it is behind, each with the file as a source."""


class Quarantine:
    """The bad frames of a video set. One thread may add while others ask.

    On disk: one JSON object a line, `{"source", "stream", "size", "mtime_ns", "frames", "kind",
    "error"}`, `frames` being null for a whole video. An entry counts as long as its file keeps size
    and time of change: a repaired file is used again, and one that could not be opened is tried
    again. Lines are appended, so several ranks may write to one file; one that was cut is left out.
    """

    def __init__(self, videos: VideoSet, path: Path | None = None) -> None:
        """Read what earlier runs wrote to `path`, if it exists; add what is left out.

        Raises:
            ConfigError: `path` is not such a file, or cannot be written.
        """
        self._videos = videos
        self._path = path
        self._frames: dict[int, str] = {}
        """Frame id → why."""
        self._bad_videos: dict[int, str] = {}
        self._listed: set[tuple[object, ...]] = set()
        if path is not None:
            self._read(path)
        self._sort()
        for source, error in zip(videos.refused, videos.skipped, strict=True):
            self._write_skipped(file_read(source), error)

    def __len__(self) -> int:
        """How many frames are bad, those of bad videos included."""
        return self._count

    @property
    def entries(self) -> tuple[FrameLoss, ...]:
        """What is bad: videos that cannot be opened, then the others in their order."""
        videos = self._videos
        listed = [
            FrameLoss(source=each.source, index=None, cause=str(each)) for each in videos.skipped
        ]
        bad: list[tuple[int, FrameLoss]] = []
        for video, why in self._bad_videos.items():
            source = str(videos.indexes[video].source)
            bad.append((video, FrameLoss(source=source, index=None, cause=why)))
        for frame, why in sorted(self._frames.items()):
            video, place = (int(each) for each in videos.population.locate(np.array(frame)))
            if video not in self._bad_videos:
                bad.append((video, FrameLoss.at(videos.indexes[video], place, why)))
        listed.extend(loss for _, loss in sorted(bad, key=lambda each: each[0]))
        return tuple(listed)

    def is_bad(self, frames: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of `frames`, ids of any shape, are bad."""
        bad = np.isin(frames, self._sorted_frames)
        if len(self._sorted_videos):
            bad |= np.isin(self._videos.population.video_of(frames), self._sorted_videos)
        return np.asarray(bad, np.bool_)

    def add(self, frame: int, error: MediaError) -> None:
        """Note that a frame is bad: with the others that `error` names, or with its whole video."""
        if self.is_bad(np.array([frame]))[0]:
            return
        population = self._videos.population
        video = int(population.video_of(np.array([frame]))[0])
        indices: list[int] | None = None
        if isinstance(error, DecodeError) and error.missing:
            indices = list(error.missing)
            first = int(population.video_start[video])
            self._frames.update(dict.fromkeys((first + index for index in indices), str(error)))
        else:
            self._bad_videos[video] = str(error)
        self._sort()
        for each in blamed(self._videos.indexes[video], indices):
            self._write(each.source, each.fingerprint, each.frames, error)

    def _sort(self) -> None:
        """Make what `is_bad` asks; whole arrays are put in place at once, for other threads."""
        population = self._videos.population
        videos = np.array(sorted(self._bad_videos), np.int64)
        frames = np.array(sorted(self._frames), np.int64)
        single = ~np.isin(population.video_of(frames), videos)
        self._sorted_videos, self._sorted_frames = videos, frames
        self._count = int(single.sum() + population.frames_per_video[videos].sum())

    def _write_skipped(self, source: Source, error: MediaError) -> None:
        try:
            fingerprint = source.fingerprint()
        except OpenError:
            return  # gone: nothing that a later run could know again
        self._write(source, fingerprint, None, error)

    def _write(
        self,
        source: Source,
        fingerprint: FileStat,
        indices: list[int] | None,
        error: MediaError,
    ) -> None:
        if self._path is None:
            return
        entry = {
            "source": str(source.path.absolute()),
            "stream": source.stream,
            **asdict(fingerprint),
            "frames": indices,
            "kind": type(error).__name__,
            "error": str(error),
        }
        if indices is None:
            if _key(entry) in self._listed:
                return
            self._listed.add(_key(entry))
        try:
            with self._path.open("a+b") as file:
                is_whole = not file.tell() or (file.seek(-1, 2), file.read(1))[1] == b"\n"
                file.write(b"" if is_whole else b"\n")
                file.write(json.dumps(entry).encode() + b"\n")
        except OSError as failure:
            warnings.warn(
                f"cannot write to {self._path}: {failure.strerror}; what is bad in {source} is "
                "left alone in this run, and not listed",
                stacklevel=2,
            )

    def _read(self, path: Path) -> None:
        try:
            with path.open("a+b") as file:  # also says at once whether it can be written
                file.seek(0)
                lines = file.read().decode("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"cannot use {path} as a quarantine list: {error}; name another file"
            ) from error
        places: _Places = {}
        for place, index in enumerate(self._videos.indexes):
            for source in files_behind(index):
                key = str(source.path.absolute()), source.stream
                places.setdefault(key, []).append((place, source))
        for number, line in enumerate(lines, 1):
            try:
                entry = _entry(line)
                if entry is not None:
                    self._honour(entry, places)
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f"line {number} of {path} is no entry of a quarantine list ({error}); "
                    "name another file, or delete it"
                ) from error

    def _honour(self, entry: dict[str, Any], places: _Places) -> None:
        frames, kind, why = entry["frames"], entry["kind"], str(entry["error"])
        if frames is None:
            self._listed.add(_key(entry))
        known = FileStat(entry["size"], entry["mtime_ns"])
        for video, source in places.get((entry["source"], entry["stream"]), []):
            index = self._videos.indexes[video]
            if version_of(index, source) != known:
                continue
            if frames is not None:
                first = int(self._videos.population.video_start[video])
                self._frames.update((first + index.check(int(frame)), why) for frame in frames)
            elif kind != OpenError.__name__:
                self._bad_videos[video] = why


def _key(entry: dict[str, Any]) -> tuple[object, ...]:
    return tuple(entry[name] for name in ("source", "stream", "size", "mtime_ns"))


def _entry(line: str) -> dict[str, Any] | None:
    """Return what a line says; None for the beginning of an entry whose writer was killed.

    Another writer may have gone on in the same line.
    """
    begins = line.startswith(_BEGINNING)
    for text in dict.fromkeys([line, line[max(0, line.rfind(_BEGINNING)) :]]):
        try:
            entry: dict[str, Any] = json.loads(text)
        except ValueError:
            if not begins:
                raise
        else:
            return entry
    return None
