"""EpisodeWindows: the frames and values that an item of a LeRobot dataset is made of."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError, DecodeError
from headrace.loaders.lerobot.dataset_folder import DatasetFolder
from headrace.loaders.lerobot.dataset_layout import Camera
from headrace.loaders.video_set import VideoSet
from headrace.units import check_numbers
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import float_seconds

T = TypeVar("T")
DeltaTimestamps = Mapping[str, Sequence[float]]
"""Feature → times in seconds, relative to an item's own."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeWindows:
    """Items of a dataset: S frames over all cameras, and windows of its columns.

    A camera has as many frames in an item as it has deltas, or one. A time before the episode gives
    its first row, one after it its last; both are marked in `*_is_pad`.
    """

    folder: DatasetFolder
    videos: VideoSet
    deltas: Mapping[str, NDArray[np.int64]]
    """Feature → int64 [T]: rows relative to an item's own."""
    frame: NDArray[np.int64]
    """int64 [M, C]: id of the frame nearest to each row's time, for each camera."""
    distance: NDArray[np.float64]
    """float64 [M, C]: seconds between both; infinite where the camera has no frame."""
    tolerance: float
    """Seconds below which `distance` must be."""
    bounds: NDArray[np.int64]
    """int64 [M, 2]: first row of each row's episode, and first row after it."""

    @classmethod
    def of(
        cls,
        folder: DatasetFolder,
        videos: VideoSet,
        delta_timestamps: DeltaTimestamps | None,
        tolerance: float,
    ) -> Self:
        """Return the items of a dataset.

        Args:
            folder: The dataset.
            videos: `video_files(folder)`, opened.
            delta_timestamps: Windows; None: single rows.
            tolerance: Seconds by which a frame may be off its row, and a delta off a row.

        Raises:
            ConfigError: a feature is unknown, or a delta is no multiple of the time of a row.
        """
        check_numbers(0, tolerance_s=tolerance)
        deltas = _in_rows(folder, delta_timestamps or {}, tolerance)
        counts = np.diff(folder.row_start)
        bounds = np.stack([folder.row_start[:-1], folder.row_start[1:]], 1).repeat(counts, 0)
        found = [_frames_of_rows(folder, camera, videos) for camera in folder.cameras]
        frames, distances = (np.stack(parts, 1) for parts in zip(*found, strict=True))
        return cls(
            folder=folder,
            videos=videos,
            deltas=deltas,
            frame=frames,
            distance=distances,
            tolerance=tolerance,
            bounds=bounds,
        )

    @cached_property
    def num_frames(self) -> int:
        """S: frames of an item, over all cameras."""
        return sum(map(len, self._camera_deltas))

    @cached_property
    def checksum(self) -> int:
        """Checksum of the frames of all items."""
        deltas = repr([each.tolist() for each in self._camera_deltas]).encode()
        return zlib.crc32(
            self.frame.tobytes(), zlib.crc32(self.bounds.tobytes(), zlib.crc32(deltas))
        )

    def frames_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frames of the items of `rows`: int64 [N, S], camera by camera."""
        return np.stack([self.frame[at, camera] for camera, at in self._cells(rows)], 1)

    def is_off(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether a frame of each item is off its time; bool [N]."""
        is_off = np.zeros(len(rows), np.bool_)
        for camera, at in self._cells(rows):
            is_off |= ~(self.distance[at, camera] < self.tolerance)  # true of NaN
        return is_off

    def error_of(self, row: int) -> DecodeError:
        """Return the error of an item that has a frame off its time."""
        cells = ((camera, int(at[0])) for camera, at in self._cells(np.array([row])))
        camera, at = next(
            (camera, at) for camera, at in cells if not self.distance[at, camera] < self.tolerance
        )
        folder = self.folder
        file = folder.cameras[camera].files[folder.episode_of(at)]
        return DecodeError(
            f"{folder.name(at)} of {folder.root}: the nearest frame of the episode in {file} is "
            f"{self.distance[at, camera]:.6g} s off its timestamp, and tolerance_s is "
            f"{self.tolerance:g}; leave out the episode, or see headrace doctor {folder.root}",
            source=str(file),
        )

    def gop_lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [GOPs with a frame in the items of `rows`]: number of these frames."""
        is_used = np.zeros(self.videos.population.num_frames, np.bool_)
        for camera, at in self._cells(rows):
            is_used[self.frame[at, camera]] = True
        gops = self.videos.decoded_population.gop_of(np.flatnonzero(is_used))
        return np.unique(gops, return_counts=True)[1]

    def formats(
        self, of_size: Callable[[tuple[int, int]], FrameFormat], size: tuple[int, int] | None
    ) -> list[FrameFormat]:
        """Return the format of each camera. Depths keep their size, as do pictures without `size`.

        Args:
            of_size: Returns the format of pictures of a (height, width).
            size: (height, width) of all pictures.

        Raises:
            ConfigError: files of a camera differ, or none can be read.
        """
        return [
            of_size(size or self._size(position))
            if camera.depth is None
            else FrameFormat(size=self._size(position), layout="gray12", dtype="uint16")
            for position, camera in enumerate(self.folder.cameras)
        ]

    def by_video(self, of_cameras: Sequence[T]) -> dict[int, T]:
        """Return video → the value of its camera; values are in the order of the cameras."""
        return {
            video: of_camera
            for position, of_camera in enumerate(of_cameras)
            for video in self._videos_of(position)
        }

    def _videos_of(self, camera: int) -> list[int]:
        is_there = np.isfinite(self.distance[:, camera])
        videos: list[int] = np.unique(
            self.videos.population.video_of(self.frame[is_there, camera])
        ).tolist()
        return videos

    def _size(self, position: int) -> tuple[int, int]:
        """Return (height, width) of a camera."""
        of = f"{self.folder.cameras[position].key} of {self.folder.root}"
        sizes = {
            self.videos.indexes[video].info.upright_size for video in self._videos_of(position)
        }
        if not sizes:
            raise ConfigError(
                f"no file of {of} can be read; see headrace doctor {self.folder.root}"
            )
        if len(sizes) > 1:
            raise ConfigError(
                f"files of {of} have pictures of "
                f"{' and '.join(f'{h}x{w}' for h, w in sorted(sizes))}; give a size"
            )
        return sizes.pop()

    def by_camera(self, pixels: Any) -> list[Any]:
        """Return [N, S, ...] as [N, T, ...] of each camera."""
        ends = np.cumsum([len(deltas) for deltas in self._camera_deltas])
        return [
            pixels[:, end - len(deltas) : end]
            for end, deltas in zip(ends.tolist(), self._camera_deltas, strict=True)
        ]

    def items(
        self,
        rows: NDArray[np.int64],
        pictures: Sequence[torch.Tensor],
        of_camera: Callable[[torch.Tensor, int], Any],
    ) -> dict[str, Any]:
        """Return the items of `rows` as `default_collate` makes a batch of LeRobot's.

        Args:
            rows: int64 [N].
            pictures: [N, T, 3, H, W] of each camera.
            of_camera: Makes the entry of a camera, by its position, of its pictures, [N, T, 3, H,
                W], or [N, 3, H, W] of single frames.
        """
        folder, batch = self.folder, dict[str, Any]()
        for position, (camera, frames) in enumerate(zip(folder.cameras, pictures, strict=True)):
            batch[camera.key] = of_camera(
                frames[:, 0] if frames.shape[1] == 1 else frames, position
            )
        windows = {name: self._window(rows, deltas) for name, deltas in self.deltas.items()}
        for name, values in folder.columns.items():
            if isinstance(values, torch.Tensor):
                batch[name] = values[windows[name][0] if name in windows else rows]
            else:
                batch[name] = [values[row] for row in rows.tolist()]
        for name, (_, is_pad) in windows.items():
            batch[f"{name}_is_pad"] = torch.from_numpy(is_pad)
        for name, texts in (("task", folder.tasks), ("subtask", folder.subtasks)):
            if texts:
                batch[name] = [texts[k] for k in folder.numbers(f"{name}_index")[rows].tolist()]
        return batch

    @cached_property
    def _camera_deltas(self) -> list[NDArray[np.int64]]:
        single = np.zeros(1, np.int64)
        return [self.deltas.get(camera.key, single) for camera in self.folder.cameras]

    def _cells(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield the camera and the rows, int64 [N], of each of the S frames of items."""
        for camera, deltas in enumerate(self._camera_deltas):
            for delta in deltas:
                yield camera, self._window(rows, delta[None])[0][:, 0]

    def _window(
        self, rows: NDArray[np.int64], deltas: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the rows at `deltas` from each row, and which are outside of its episode."""
        first, stop = self.bounds[rows].T[:, :, None]
        wanted = rows[:, None] + deltas
        return wanted.clip(first, stop - 1), (wanted < first) | (wanted >= stop)


def video_files(folder: DatasetFolder) -> list[Path]:
    """Return the video files of a dataset, each once. Raises ConfigError where there are none."""
    if not folder.cameras:
        raise ConfigError(f"{folder.root} has no video; read it with LeRobotDataset")
    return [*dict.fromkeys(file for camera in folder.cameras for file in camera.files)]


def _in_rows(
    folder: DatasetFolder, delta_timestamps: DeltaTimestamps, tolerance: float
) -> dict[str, NDArray[np.int64]]:
    """Return deltas in rows."""
    if not isinstance(delta_timestamps, Mapping):
        raise ConfigError(
            "delta_timestamps must be a dict from feature to seconds, got "
            f"{type(delta_timestamps).__name__}"
        )
    deltas = {}
    for name, seconds in delta_timestamps.items():
        if name not in folder.features:
            raise ConfigError(
                f"delta_timestamps has {name!r}, which {folder.root} has not; it has "
                f"{', '.join(folder.features)}"
            )
        if not isinstance(folder.columns.get(name, torch.empty(0)), torch.Tensor):
            raise ConfigError(f"delta_timestamps has {name!r}, a text, which has no windows")
        try:
            times = np.array([*seconds], np.float64)
        except (TypeError, ValueError):
            times = np.array([np.nan])
        if times.ndim != 1 or not times.size or not np.isfinite(times).all():
            raise ConfigError(f"delta_timestamps of {name} must be seconds, got {seconds!r:.80}")
        rows = np.rint(times * folder.fps).astype(np.int64)
        off = np.abs(times * folder.fps - rows) / folder.fps > tolerance
        if off.any():
            raise ConfigError(
                f"delta_timestamps of {name} has {times[off][0]:g} s, which is no multiple of 1 / "
                f"{folder.fps:g} s, the time of a row, within tolerance_s={tolerance:g}"
            )
        deltas[name] = rows
    return deltas


def _frames_of_rows(
    folder: DatasetFolder, camera: Camera, videos: VideoSet
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the frame of a camera nearest to each row's time, and its distance in seconds."""
    opened = {index.source.path: video for video, index in enumerate(videos.indexes)}
    shown_of = cache(lambda video: shown_seconds(videos.indexes[video]))
    frames, distances = np.zeros(len(folder), np.int64), np.full(len(folder), np.inf)
    for episode, (start, stop) in enumerate(pairwise(folder.row_start.tolist())):
        video = opened.get(camera.files[episode])
        if video is not None:
            nearest = EpisodeFrames.of(folder, camera, episode, shown_of(video))
            frames[start:stop] = videos.population.video_start[video] + nearest.index
            distances[start:stop] = nearest.distance
    return frames, distances


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeFrames:
    """The frames of an episode in the file of a camera, and the nearest to each of its R rows."""

    first: int
    """Index of its first frame in the file."""
    stop: int
    """Index of the first frame after it."""
    index: NDArray[np.int64]
    """int64 [R]: index of the frame nearest to each row's time; of two, the earlier."""
    distance: NDArray[np.float64]
    """float64 [R]: seconds between both; infinite where there is no frame."""

    @classmethod
    def of(
        cls, folder: DatasetFolder, camera: Camera, episode: int, shown: NDArray[np.float64]
    ) -> Self:
        """Return the frames of an episode, by its position in the folder.

        Frames of the episodes beside it in the file are none of its own, however near.

        Args:
            folder: The dataset.
            camera: One of its cameras.
            episode: Position of the episode.
            shown: float64 [frames], ascending: `shown_seconds` of the file.
        """
        rows = slice(*folder.row_start[episode : episode + 2].tolist())
        begin, end = camera.start_seconds[episode], camera.end_seconds[episode]
        limits = np.array([begin, end]) - 0.5 / folder.fps
        first, stop = np.searchsorted(shown, limits).tolist()
        wanted = begin + folder.numbers("timestamp")[rows].astype(np.float64)
        if first >= stop:
            return cls(
                first=first,
                stop=first,
                index=np.zeros(len(wanted), np.int64),
                distance=np.full(len(wanted), np.inf),
            )
        after = np.searchsorted(shown, wanted).clip(first, stop - 1)
        before = (after - 1).clip(first)
        is_before = np.abs(shown[before] - wanted) <= np.abs(shown[after] - wanted)
        index = np.where(is_before, before, after)
        return cls(first=first, stop=stop, index=index, distance=np.abs(shown[index] - wanted))


def shown_seconds(index: StreamIndex) -> NDArray[np.float64]:
    """Return the presentation time of every frame, float64 [frames], ascending."""
    return float_seconds(index.pts, index.info.time_base)
