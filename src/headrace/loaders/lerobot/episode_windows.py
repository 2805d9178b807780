"""EpisodeWindows: frames and column windows of the items of a LeRobot dataset."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.open_decoder import check_can_decode
from headrace.errors import ConfigError, DecodeError
from headrace.loaders.lerobot.dataset_folder import DatasetFolder, positions_of
from headrace.loaders.lerobot.dataset_layout import Camera, DepthUnit
from headrace.loaders.video_set import VideoSet
from headrace.runtime.buffer_pool import BatchBufferPool
from headrace.sampling.moments import nearest
from headrace.units import check_numbers
from headrace.video.frame_format import FrameFormat, Layout
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import float_seconds

DeltaTimestamps = Mapping[str, Sequence[float]]
"""Feature → times in seconds, relative to the item's time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeWindows:
    """Items of a dataset: S frames over all cameras, and windows of the columns.

    An item has one frame of a camera per delta, or one frame. Times before the episode get its
    first row, times after it its last row; both are marked in `*_is_pad`.
    """

    folder: DatasetFolder
    videos: VideoSet
    deltas: Mapping[str, NDArray[np.int64]]
    """Feature → int64 [T]: rows relative to the item's row."""
    frame: NDArray[np.int64]
    """int64 [M, C]: id of each camera's frame nearest to the row's time."""
    distance: NDArray[np.float64]
    """float64 [M, C]: seconds between frame and row; infinite if the camera has no frame."""
    tolerance: float
    """Upper bound of `distance`, exclusive, in seconds."""
    bounds: NDArray[np.int64]
    """int64 [M, 2]: rows [start, stop) of each row's episode."""
    camera_of: NDArray[np.int64]
    """int64 [videos]: position of each video's camera."""

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
            videos: The opened `video_files(folder)`.
            delta_timestamps: Windows; None: single rows.
            tolerance: Max difference, in seconds, between a frame's time and its row's, and between
                a delta and a multiple of the row interval.

        Raises:
            ConfigError: a feature is unknown, or a delta is not a multiple of the row interval.
        """
        check_numbers(0, tolerance_s=tolerance)
        deltas = _in_rows(folder, delta_timestamps or {}, tolerance)
        frame = np.zeros((len(folder), len(folder.cameras)), np.int64)
        distance, camera_of = np.full(frame.shape, np.inf), np.zeros(len(videos.indexes), np.int64)
        opened = {index.source.path: video for video, index in enumerate(videos.indexes)}
        for position, camera in enumerate(folder.cameras):
            for file, episodes in positions_of(camera.files).items():
                if (video := opened.get(file)) is None:
                    continue
                camera_of[video] = position
                frame_times = frame_seconds(videos.indexes[video])
                for episode in episodes:
                    rows = folder.rows_of(episode)
                    _, index, distance[rows, position] = frames_of_episode(
                        folder, camera, episode, frame_times
                    )
                    frame[rows, position] = videos.population.video_start[video] + index
        return cls(
            folder=folder,
            videos=videos,
            deltas=deltas,
            frame=frame,
            distance=distance,
            tolerance=tolerance,
            bounds=np.stack([folder.row_start[:-1], folder.row_start[1:]], 1)[folder.episode_of],
            camera_of=camera_of,
        )

    @cached_property
    def num_frames(self) -> int:
        """S: frames of an item, over all cameras."""
        return sum(map(len, self._camera_deltas))

    @cached_property
    def checksum(self) -> int:
        """Checksum of the frames of all items."""
        deltas = repr([deltas.tolist() for deltas in self._camera_deltas]).encode()
        return zlib.crc32(
            self.frame.tobytes(), zlib.crc32(self.bounds.tobytes(), zlib.crc32(deltas))
        )

    def frames_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame ids of the items of `rows`: int64 [N, S], camera by camera."""
        return np.stack([self.frame[cells] for cells in self._cells(rows)], 1)

    def is_off(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each item has a frame that is off its row's time, bool [N]."""
        is_off = np.zeros(len(rows), np.bool_)
        for cells in self._cells(rows):
            is_off |= ~(self.distance[cells] < self.tolerance)  # also for NaN
        return is_off

    def check(self, rows: NDArray[np.int64]) -> None:
        """Raise DecodeError if an item of `rows` has a frame that is off its row's time."""
        folder = self.folder
        for window_rows, camera in self._cells(rows):
            is_off = ~(self.distance[window_rows, camera] < self.tolerance)
            for row in window_rows[is_off].tolist():
                file = folder.cameras[camera].files[folder.episode_of[row]]
                raise DecodeError(
                    f"{folder.name(row)} of {folder.root}: the nearest frame of the episode in "
                    f"{file} is {self.distance[row, camera]:.6g} s off its timestamp, and "
                    f"tolerance_s is {self.tolerance:g}; leave out the episode, or see headrace "
                    f"doctor {folder.root}",
                    source=str(file),
                )

    def gop_lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [GOPs]: frames of each GOP in the items of `rows`; GOPs without any are left
        out.
        """
        is_used = np.zeros(self.videos.population.num_frames, np.bool_)
        for cells in self._cells(rows):
            is_used[self.frame[cells]] = True
        gops = self.videos.decoded_population.gop_of(np.flatnonzero(is_used))
        return np.unique(gops, return_counts=True)[1]

    def formats(
        self, shape: FrameFormat, layout: Layout, decoding: DecoderConfig
    ) -> list[FrameFormat]:
        """Return the format of each camera. Depth frames keep their size.

        Args:
            shape: Format of color frames, as RGB; size None: the size of the camera.
            layout: Layout of waiting color frames.
            decoding: Decoder and device.

        Raises:
            ConfigError: files of a camera differ in size, or none can be read.
            BackendError: the decoder does not support a format.
        """
        formats = []
        for position, camera in enumerate(self.folder.cameras):
            indexes = [self.videos.indexes[k] for k in np.flatnonzero(self.camera_of == position)]
            if camera.depth is None:
                size = shape.size or self._common_size(camera, indexes)
                formats.append(replace(shape, size=size, layout=layout))
            else:
                size = self._common_size(camera, indexes)
                formats.append(FrameFormat(size=size, layout="gray12", dtype="uint16"))
            check_can_decode(indexes, formats[-1], decoding)
        return formats

    def _common_size(self, camera: Camera, indexes: Sequence[StreamIndex]) -> tuple[int, int]:
        """Return the (height, width) of the files of a camera."""
        name, sizes = f"{camera.key} of {self.folder.root}", {i.info.upright_size for i in indexes}
        if not sizes:
            raise ConfigError(
                f"no file of {name} can be read; see headrace doctor {self.folder.root}"
            )
        if len(sizes) > 1:
            listed = " and ".join(f"{height}x{width}" for height, width in sorted(sizes))
            raise ConfigError(f"files of {name} have different sizes, {listed}; give a size")
        return sizes.pop()

    def by_camera(self, pixels: Any) -> list[Any]:
        """Split [N, S, ...] into [N, T, ...] per camera."""
        ends = accumulate(map(len, self._camera_deltas), initial=0)
        return [pixels[:, first:stop] for first, stop in pairwise(ends)]

    def items(
        self,
        rows: NDArray[np.int64],
        camera_frames: Sequence[torch.Tensor],
        *,
        unit: DepthUnit,
        as_float: bool,
        pools: Sequence[BatchBufferPool] | None = None,
    ) -> dict[str, Any]:
        """Return a batch of the items of `rows`, equal to `default_collate` of LeRobot's items.

        Args:
            rows: int64 [N].
            camera_frames: Decoded frames of each camera, [N, T, 3, H, W].
            unit: Unit of depths.
            as_float: Whether color frames are float32 in [0, 1], not uint8.
            pools: Memory for the float frames of each camera on the CPU; None: new memory.
        """
        folder, batch = self.folder, dict[str, Any]()
        for position, camera in enumerate(folder.cameras):
            frames = camera_frames[position]
            frames = frames[:, 0] if frames.shape[1] == 1 else frames
            if camera.depth is not None:
                batch[camera.key] = camera.depth.depths(frames, unit)
            elif as_float:
                batch[camera.key] = _as_floats(frames, None if pools is None else pools[position])
            else:
                batch[camera.key] = frames.contiguous()
        windows = {name: self._window(rows, deltas) for name, deltas in self.deltas.items()}
        for name, values in folder.columns.items():
            if isinstance(values, torch.Tensor):
                batch[name] = values[windows[name][0] if name in windows else rows]
            else:
                batch[name] = [values[row] for row in rows.tolist()]
        for name, (_, is_pad) in windows.items():
            batch[f"{name}_is_pad"] = torch.from_numpy(is_pad)
        for name, texts in folder.texts.items():
            batch[name] = [texts[k] for k in folder.numbers(f"{name}_index")[rows].tolist()]
        return batch

    @cached_property
    def _camera_deltas(self) -> list[NDArray[np.int64]]:
        single = np.zeros(1, np.int64)
        return [self.deltas.get(camera.key, single) for camera in self.folder.cameras]

    def _cells(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int]]:
        """Yield (rows, int64 [N]; camera) for each of the S frames of the items of `rows`."""
        for camera, deltas in enumerate(self._camera_deltas):
            for delta in deltas:
                yield self._window(rows, delta[None])[0][:, 0], camera

    def _window(
        self, rows: NDArray[np.int64], deltas: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the rows at `deltas` from each row, and which were outside of its episode."""
        first, stop = self.bounds[rows].T[:, :, None]
        wanted = rows[:, None] + deltas
        return wanted.clip(first, stop - 1), (wanted < first) | (wanted >= stop)


def video_files(folder: DatasetFolder) -> list[Path]:
    """Return the video files of a dataset, each once. Raises ConfigError if there are none."""
    if not folder.cameras:
        raise ConfigError(f"{folder.root} has no video; read it with LeRobotDataset")
    return [*dict.fromkeys(file for camera in folder.cameras for file in camera.files)]


def _as_floats(frames: torch.Tensor, pool: BatchBufferPool | None) -> torch.Tensor:
    """Return frames uint8 [..., 3, H, W] as float32 in [0, 1], channels outermost in memory."""
    if frames.device.type != "cpu":
        return torch.div(frames, 255)
    shape = tuple(frames.shape)
    floats = np.empty(shape, np.float32) if pool is None else pool.acquire(shape, "float32")
    # Not torch.div: its threads would take the cores of the decoders.
    for position in np.ndindex(shape[:-3]):
        floats[position] = frames[position].numpy()
        floats[position] /= 255
    return torch.from_numpy(floats)


def _in_rows(
    folder: DatasetFolder, delta_timestamps: DeltaTimestamps, tolerance: float
) -> dict[str, NDArray[np.int64]]:
    """Convert deltas from seconds to rows."""
    if not isinstance(delta_timestamps, Mapping):
        raise ConfigError(
            "delta_timestamps must be a dict from feature to seconds, got "
            f"{type(delta_timestamps).__name__}"
        )
    deltas = {}
    for name, seconds in delta_timestamps.items():
        if name not in folder.features:
            raise ConfigError(
                f"delta_timestamps has {name!r}, which is not a feature of {folder.root}; it has "
                f"{', '.join(folder.features)}"
            )
        if isinstance(folder.columns.get(name), list):
            raise ConfigError(
                f"delta_timestamps has {name!r}, which is text and has no windows; leave it out"
            )
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
                f"delta_timestamps of {name} has {times[off][0]:g} s, which is not a multiple of "
                f"the row interval, 1 / {folder.fps:g} s, within tolerance_s={tolerance:g}"
            )
        deltas[name] = rows
    return deltas


def frames_of_episode(
    folder: DatasetFolder, camera: Camera, episode: int, frame_times: NDArray[np.float64]
) -> tuple[range, NDArray[np.int64], NDArray[np.float64]]:
    """Return the frames of an episode in its file, and the nearest one to each of its R rows.

    The nearest frames are int64 [R], indices in the file, the earlier of two equally near; with
    their distances, float64 [R], in seconds, infinite if the episode has no frame. Only frames of
    the episode are considered, not those of its neighbors in the file.

    Args:
        folder: The dataset.
        camera: One of its cameras.
        episode: Position of the episode in the folder.
        frame_times: float64 [frames], ascending: `frame_seconds` of the file.
    """
    start, end = camera.start_seconds[episode], camera.end_seconds[episode]
    bounds = np.searchsorted(frame_times, np.array([start, end]) - 0.5 / folder.fps)
    frames = range(*bounds.tolist())
    row_times = start + folder.numbers("timestamp")[folder.rows_of(episode)].astype(np.float64)
    if not frames:
        return frames, np.zeros(len(row_times), np.int64), np.full(len(row_times), np.inf)
    times = frame_times[frames.start : frames.stop]
    position = nearest(row_times, times, np.inf).clip(0)  # a row time of NaN has none
    return frames, frames.start + position, np.abs(times[position] - row_times)


def frame_seconds(index: StreamIndex) -> NDArray[np.float64]:
    """Return the presentation time of every frame, float64 [frames], ascending."""
    return float_seconds(index.pts, index.info.time_base)
