"""EpisodeWindows: the frames and values that an item of a LeRobot dataset is made of."""

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
from headrace.loaders.lerobot.dataset_layout import Camera
from headrace.loaders.lerobot.depth_codes import DepthUnit
from headrace.loaders.video_set import VideoSet
from headrace.runtime.buffer_pool import BatchBufferPool
from headrace.sampling.moment_windows import nearest
from headrace.units import check_numbers
from headrace.video.frame_format import FrameFormat, Layout
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import float_seconds

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
    camera_of: NDArray[np.int64]
    """int64 [videos]: position of the camera of each of `videos`."""

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
        frame = np.zeros((len(folder), len(folder.cameras)), np.int64)
        distance, camera_of = np.full(frame.shape, np.inf), np.zeros(len(videos.indexes), np.int64)
        opened = {index.source.path: video for video, index in enumerate(videos.indexes)}
        for position, camera in enumerate(folder.cameras):
            for file, episodes in positions_of(camera.files).items():
                if (video := opened.get(file)) is None:
                    continue
                camera_of[video] = position
                shown = shown_seconds(videos.indexes[video])
                for episode in episodes:
                    rows = folder.rows_of(episode)
                    _, index, distance[rows, position] = frames_of_episode(
                        folder, camera, episode, shown
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
        deltas = repr([each.tolist() for each in self._camera_deltas]).encode()
        return zlib.crc32(
            self.frame.tobytes(), zlib.crc32(self.bounds.tobytes(), zlib.crc32(deltas))
        )

    def frames_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frames of the items of `rows`: int64 [N, S], camera by camera."""
        return np.stack([self.frame[cells] for cells in self._cells(rows)], 1)

    def is_off(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether a frame of each item is off its time; bool [N]."""
        is_off = np.zeros(len(rows), np.bool_)
        for cells in self._cells(rows):
            is_off |= ~(self.distance[cells] < self.tolerance)  # true of NaN
        return is_off

    def check(self, rows: NDArray[np.int64]) -> None:
        """Check that no item of `rows` has a frame off its time: DecodeError."""
        folder = self.folder
        for at, camera in self._cells(rows):
            for row in at[~(self.distance[at, camera] < self.tolerance)].tolist():
                file = folder.cameras[camera].files[folder.episode_of[row]]
                raise DecodeError(
                    f"{folder.name(row)} of {folder.root}: the nearest frame of the episode in "
                    f"{file} is {self.distance[row, camera]:.6g} s off its timestamp, and "
                    f"tolerance_s is {self.tolerance:g}; leave out the episode, or see headrace "
                    f"doctor {folder.root}",
                    source=str(file),
                )

    def gop_lengths(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [GOPs with a frame in the items of `rows`]: number of these frames."""
        is_used = np.zeros(self.videos.population.num_frames, np.bool_)
        for cells in self._cells(rows):
            is_used[self.frame[cells]] = True
        gops = self.videos.decoded_population.gop_of(np.flatnonzero(is_used))
        return np.unique(gops, return_counts=True)[1]

    def formats(
        self, shape: FrameFormat, layout: Layout, decoding: DecoderConfig
    ) -> list[FrameFormat]:
        """Return the format of each camera. Depths keep their size, as do pictures without a size.

        Args:
            shape: Format of pictures as RGB; its size is that of all, or None.
            layout: Layout in which pictures wait.
            decoding: Decoder and device.

        Raises:
            ConfigError: files of a camera differ, or none can be read.
            BackendError: the decoder does not give a format.
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
        """Return (height, width) of the files of a camera."""
        of, sizes = f"{camera.key} of {self.folder.root}", {i.info.upright_size for i in indexes}
        if not sizes:
            raise ConfigError(
                f"no file of {of} can be read; see headrace doctor {self.folder.root}"
            )
        if len(sizes) > 1:
            several = " and ".join(f"{height}x{width}" for height, width in sorted(sizes))
            raise ConfigError(f"files of {of} have pictures of {several}; give a size")
        return sizes.pop()

    def by_camera(self, pixels: Any) -> list[Any]:
        """Return [N, S, ...] as [N, T, ...] of each camera."""
        ends = accumulate(map(len, self._camera_deltas), initial=0)
        return [pixels[:, first:stop] for first, stop in pairwise(ends)]

    def items(
        self,
        rows: NDArray[np.int64],
        pictures: Sequence[torch.Tensor],
        *,
        unit: DepthUnit,
        as_float: bool,
        pools: Sequence[BatchBufferPool] | None = None,
    ) -> dict[str, Any]:
        """Return the items of `rows` as `default_collate` makes a batch of LeRobot's.

        Args:
            rows: int64 [N].
            pictures: [N, T, 3, H, W] of each camera, as they are decoded.
            unit: Unit of depths.
            as_float: Pictures are float32 in [0, 1], in place of uint8.
            pools: Memory of the pictures of each camera on the CPU; None: new memory.
        """
        folder, batch = self.folder, dict[str, Any]()
        for position, (camera, frames) in enumerate(zip(folder.cameras, pictures, strict=True)):
            shown = frames[:, 0] if frames.shape[1] == 1 else frames
            if camera.depth is not None:
                batch[camera.key] = camera.depth.depths(shown, unit)
            elif as_float:
                batch[camera.key] = _as_floats(shown, None if pools is None else pools[position])
            else:
                batch[camera.key] = shown.contiguous()
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
        """Yield rows, int64 [N], and camera of each of the S frames of items."""
        for camera, deltas in enumerate(self._camera_deltas):
            for delta in deltas:
                yield self._window(rows, delta[None])[0][:, 0], camera

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


def _as_floats(pictures: torch.Tensor, pool: BatchBufferPool | None) -> torch.Tensor:
    """Return pictures uint8 [..., 3, H, W] as float32 in [0, 1], channels outermost in memory."""
    if pictures.device.type != "cpu":
        return torch.div(pictures, 255)
    shape = tuple(pictures.shape)
    floats = np.empty(shape, np.float32) if pool is None else pool.acquire(shape, "float32")
    # Not torch.div: its threads would take the cores of the decoders.
    for place in np.ndindex(shape[:-3]):
        floats[place] = pictures[place].numpy()
        floats[place] /= 255
    return torch.from_numpy(floats)


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
        if isinstance(folder.columns.get(name), list):
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


def frames_of_episode(
    folder: DatasetFolder, camera: Camera, episode: int, shown: NDArray[np.float64]
) -> tuple[range, NDArray[np.int64], NDArray[np.float64]]:
    """Return the frames of an episode in its file, and the nearest to each of its R rows.

    The nearest are int64 [R], indices in the file, of two equally near the earlier; and their
    distances, float64 [R], in seconds, infinite where the episode has no frame. Frames of the
    episodes beside it in the file are none of its own, however near.

    Args:
        folder: The dataset.
        camera: One of its cameras.
        episode: Position of the episode in the folder.
        shown: float64 [frames], ascending: `shown_seconds` of the file.
    """
    begin, end = camera.start_seconds[episode], camera.end_seconds[episode]
    frames = range(*np.searchsorted(shown, np.array([begin, end]) - 0.5 / folder.fps).tolist())
    times = begin + folder.numbers("timestamp")[folder.rows_of(episode)].astype(np.float64)
    if not frames:
        return frames, np.zeros(len(times), np.int64), np.full(len(times), np.inf)
    own = shown[frames.start : frames.stop]
    place = nearest(times, own, np.inf).clip(0)  # a time that is NaN has none
    return frames, frames.start + place, np.abs(own[place] - times)


def shown_seconds(index: StreamIndex) -> NDArray[np.float64]:
    """Return the presentation time of every frame, float64 [frames], ascending."""
    return float_seconds(index.pts, index.info.time_base)
