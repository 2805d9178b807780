"""Quarantine: bad frames and videos, listed in a file so that later runs skip them."""

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import ConfigError, DecodeError, MediaError, OpenError
from headrace.loaders.video_set import VideoSet
from headrace.video.frames import FrameLoss
from headrace.video.source import FileStat, ProxySource, Source, Stream
from headrace.video.stream_index import StreamIndex


def bad_files(
    index: StreamIndex, frames: list[int] | None
) -> Iterator[tuple[Source, FileStat, list[int] | None]]:
    """Yield the files that cause bad frames of a video: file, version and frames (None: all).

    If the video is read from a proxy, frames that were damaged in the original when the proxy was
    made are bad in the original; other bad frames are bad in the proxy only, and the original can
    still be read. Deleted files are left out.
    """
    if not isinstance(index, ProxyIndex):
        yield index.source, index.fingerprint, frames
        return
    in_original = [frame for frame in frames or () if frame in index.lost]
    if in_original:
        yield index.source, index.fingerprint, in_original
    in_proxy = None if frames is None else [frame for frame in frames if frame not in index.lost]
    proxy = file_read(index.source)
    fingerprint = None if in_proxy == [] else version_of(index, proxy)
    if fingerprint is not None:
        yield proxy, fingerprint, in_proxy


def version_of(index: StreamIndex, source: Source) -> FileStat | None:
    """Return the version of a video's original or proxy; None: the file is deleted."""
    if source is index.source:
        return index.fingerprint
    try:
        return source.fingerprint()
    except OpenError:
        return None


def file_read(source: Source) -> Source:
    """Return the file that a video is read from: the original, or its proxy."""
    return Source(source.proxy) if isinstance(source, ProxySource) else source


_BEGINNING = '{"source"'
"""First characters of each entry."""

_VideosOfFile = dict[tuple[str, Stream | None], list[tuple[int, Source]]]
"""(path, stream) of a file → videos read from it, each with the file as a source."""


class Quarantine:
    """Bad frames of a video set. One thread may add frames while others read.

    On disk: one JSON object per line, `{"source", "stream", "size", "mtime_ns", "frames", "kind",
    "error"}`; `frames` is null for a whole video. An entry is valid as long as the file's size and
    modification time do not change: a repaired file is used again, and a file that could not be
    opened is always tried again. Lines are appended, so several ranks may write to one file; a
    truncated line is ignored.
    """

    def __init__(self, videos: VideoSet, path: str | os.PathLike[str] | None = None) -> None:
        """Read the entries of earlier runs from `path`, if it exists, and add skipped videos.

        Raises:
            ConfigError: `path` is not a quarantine list, or cannot be written.
        """
        self._videos = videos
        self._path = None if path is None else Path(path)
        self._frames: dict[int, str] = {}
        """Frame id → error message."""
        self._bad_videos: dict[int, str] = {}
        self._listed: set[tuple[object, ...]] = set()
        if self._path is not None:
            self._read(self._path)
        self._sort()
        for source, error in zip(videos.refused, videos.skipped, strict=True):
            file = file_read(source)
            # A later run identifies a file by its version, so a missing file is not listed.
            with suppress(OpenError):
                self._write(file, file.fingerprint(), None, error)

    def __len__(self) -> int:
        """Number of bad frames, including all frames of bad videos."""
        return self._count

    @property
    def entries(self) -> tuple[FrameLoss, ...]:
        """Losses: videos that cannot be opened, then bad videos and frames, in order."""
        videos = self._videos
        listed = [
            FrameLoss(source=error.source, index=None, cause=str(error)) for error in videos.skipped
        ]
        bad: list[tuple[int, FrameLoss]] = []
        for video, reason in self._bad_videos.items():
            source = str(videos.indexes[video].source)
            bad.append((video, FrameLoss(source=source, index=None, cause=reason)))
        for frame, reason in sorted(self._frames.items()):
            video, index = map(int, videos.population.locate(np.array(frame)))
            if video not in self._bad_videos:
                bad.append((video, FrameLoss.at(videos.indexes[video], index, reason)))
        listed.extend(loss for _, loss in sorted(bad, key=lambda pair: pair[0]))
        return tuple(listed)

    def is_bad(self, frames: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether frames are bad, by frame ids of any shape."""
        bad = np.isin(frames, self._sorted_frames)
        if len(self._sorted_videos):
            bad |= np.isin(self._videos.population.video_of(frames), self._sorted_videos)
        return np.asarray(bad, np.bool_)

    def add(self, frame: int, error: MediaError) -> None:
        """Add a bad frame and all frames that `error` names; its whole video if it names none."""
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
        for source, fingerprint, frames in bad_files(self._videos.indexes[video], indices):
            self._write(source, fingerprint, frames, error)

    def _sort(self) -> None:
        """Replace the arrays of `is_bad`; they are never changed, as other threads read them."""
        population = self._videos.population
        videos = np.array(sorted(self._bad_videos), np.int64)
        frames = np.array(sorted(self._frames), np.int64)
        single = ~np.isin(population.video_of(frames), videos)
        self._sorted_videos, self._sorted_frames = videos, frames
        self._count = int(single.sum() + population.frames_per_video[videos].sum())

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
                is_complete = not file.tell() or (file.seek(-1, 2), file.read(1))[1] == b"\n"
                file.write(b"" if is_complete else b"\n")
                file.write(json.dumps(entry).encode() + b"\n")
        except OSError as failure:
            warnings.warn(
                f"cannot write to {self._path}: {failure.strerror}; bad frames of {source} are "
                "skipped in this run, but not listed",
                stacklevel=2,
            )

    def _read(self, path: Path) -> None:
        try:
            with path.open("a+b") as file:  # fails at once if it cannot be written
                file.seek(0)
                lines = file.read().decode("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"cannot use {path} as a quarantine list: {error}; give another file"
            ) from error
        videos_of_file: _VideosOfFile = {}
        for video, index in enumerate(self._videos.indexes):
            for source in dict.fromkeys((index.source, file_read(index.source))):
                key = str(source.path.absolute()), source.stream
                videos_of_file.setdefault(key, []).append((video, source))
        for number, line in enumerate(lines, 1):
            try:
                entry = _entry(line)
                if entry is not None:
                    self._apply(entry, videos_of_file)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ConfigError(
                    f"line {number} of {path} is not an entry of a quarantine list ({error}); "
                    "give another file, or delete this one"
                ) from error

    def _apply(self, entry: dict[str, Any], videos_of_file: _VideosOfFile) -> None:
        frames, kind, reason = entry["frames"], entry["kind"], str(entry["error"])
        if frames is None:
            self._listed.add(_key(entry))
        known = FileStat(entry["size"], entry["mtime_ns"])
        for video, source in videos_of_file.get((entry["source"], entry["stream"]), []):
            index = self._videos.indexes[video]
            if version_of(index, source) != known:
                continue
            if frames is not None:
                first = int(self._videos.population.video_start[video])
                self._frames.update((first + index.check(int(frame)), reason) for frame in frames)
            elif kind != OpenError.__name__:
                self._bad_videos[video] = reason


def _key(entry: dict[str, Any]) -> tuple[object, ...]:
    return tuple(entry[name] for name in ("source", "stream", "size", "mtime_ns"))


def _entry(line: str) -> dict[str, Any] | None:
    """Parse a line; None: a truncated entry, whose writer was killed.

    Another writer may have appended its entry to the truncated line.
    """
    is_entry = line.startswith(_BEGINNING)
    for text in dict.fromkeys([line, line[max(0, line.rfind(_BEGINNING)) :]]):
        try:
            entry: dict[str, Any] = json.loads(text)
        except ValueError:
            if not is_entry:
                raise
        else:
            return entry
    return None
