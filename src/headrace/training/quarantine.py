"""Quarantine: bad frames and videos, kept in a file so that the next run leaves them alone."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, DecodeError, MediaError, OpenError
from headrace.training.video_set import VideoSet
from headrace.video.source import Source


class Quarantine:
    """The bad frames of a video set. One thread may add while others ask.

    On disk: one JSON object a line, `{"source", "size", "mtime_ns", "frames", "error"}`, `frames`
    being null for a whole video. An entry counts as long as its file keeps size and time of change:
    a repaired file is used again. Lines are appended, so several ranks may write to one file.
    """

    def __init__(self, videos: VideoSet, path: Path | None = None) -> None:
        """Read what earlier runs wrote to `path`, if it exists; add what is left out.

        Raises:
            ConfigError: `path` is not such a file.
        """
        self._videos = videos
        self._path = path
        self._frames: set[int] = set()
        self._bad_videos: set[int] = set()
        self._listed: set[tuple[str, int, int]] = set()
        if path is not None and path.exists():
            self._read(path)
        for error in videos.left_out:
            self._write(Source.of(error.source), None, error)

    def __len__(self) -> int:
        """How many frames are bad, those of bad videos included."""
        population = self._videos.population
        single = [frame for frame in tuple(self._frames) if not self._is_in_bad_video(frame)]
        return len(single) + sum(
            int(population.frames_per_video[each]) for each in tuple(self._bad_videos)
        )

    def is_bad(self, frames: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of `frames`, ids of any shape, are bad."""
        bad = np.isin(frames, np.array(tuple(self._frames), np.int64))
        if self._bad_videos:
            videos = self._videos.population.video_of(frames)
            bad |= np.isin(videos, np.array(tuple(self._bad_videos), np.int64))
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
            self._frames.update(int(population.video_start[video]) + index for index in indices)
        else:
            self._bad_videos.add(video)
        self._write(self._videos.indexes[video].source, indices, error)

    def _is_in_bad_video(self, frame: int) -> bool:
        return int(self._videos.population.video_of(np.array([frame]))[0]) in self._bad_videos

    def _write(self, source: Source, indices: list[int] | None, error: MediaError) -> None:
        if self._path is None:
            return
        try:
            fingerprint = source.fingerprint()
        except OpenError:
            return  # gone: nothing that a later run could know again
        entry = {
            "source": str(source.path.absolute()),
            **asdict(fingerprint),
            "frames": indices,
            "error": str(error),
        }
        if indices is None:
            if _key(entry) in self._listed:
                return
            self._listed.add(_key(entry))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def _read(self, path: Path) -> None:
        places = {
            os.fspath(index.source.path.absolute()): place
            for place, index in enumerate(self._videos.indexes)
        }
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                entry = json.loads(line)
                if entry["frames"] is None:
                    self._listed.add(_key(entry))
                place = places.get(entry["source"])
                if place is not None:
                    self._honour(place, entry)
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f"line {number} of {path} is no entry of a quarantine list ({error}); "
                    "name another file, or delete it"
                ) from error

    def _honour(self, video: int, entry: dict[str, Any]) -> None:
        index, population = self._videos.indexes[video], self._videos.population
        if asdict(index.fingerprint) != {name: entry[name] for name in ("size", "mtime_ns")}:
            return
        if entry["frames"] is None:
            self._bad_videos.add(video)
            return
        first = int(population.video_start[video])
        self._frames.update(first + index.check(int(frame)) for frame in entry["frames"])


def _key(entry: dict[str, Any]) -> tuple[str, int, int]:
    return entry["source"], entry["size"], entry["mtime_ns"]
