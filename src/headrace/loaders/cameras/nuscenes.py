"""NuScenes: a set in nuScenes' form as clips, times and metadata."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.cameras.camera_times import CameraTimes
from headrace.loaders.cameras.moment_table import ClipMoment
from headrace.loaders.cameras.nuscenes_tables import (
    NuScenesTables,
    Row,
    Shot,
    link_pictures,
    read_tables,
)
from headrace.loaders.manifest_rows import named_path
from headrace.video.camera_layout import CameraClip, CameraLayout

PICTURES_PER_SECOND = 12
"""Of nuScenes' cameras; when each was taken, `NuScenes.times` says."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NuScenes:
    """What nuScenes' tables say of scenes, for loaders of cameras.

        nuscenes = NuScenes.read("/data/nuscenes", "v1.0-mini")
        layout = nuscenes.link_pictures("links")
        alignment = Alignment(sync="nearest", times=nuscenes.times)
        with CameraLoader(layout, alignment=alignment, metadata=nuscenes.metadata) as loader: ...

    A clip is a scene, called by its name. Frame k of a camera is the k-th that it took in the
    scene, key frames and sweeps together in the order of time; videos made of a scene must hold
    just these.
    """

    folder: Path
    """Where `samples/` and `sweeps/` lie (`dataroot`)."""
    tables: NuScenesTables

    @classmethod
    def read(cls, folder: str | os.PathLike[str], version: str = "v1.0-mini") -> "NuScenes":
        """Read the tables in `folder/version`; no picture is looked at.

        The mini set takes a second. The whole one needs some 10 GB of memory, as nuScenes' own
        development kit does.

        Raises:
            ConfigError: a table is missing, cannot be read, or does not go together with others.
        """
        path = named_path(folder, "a set in the form of nuScenes")
        return cls(folder=path, tables=read_tables(path, version))

    @property
    def scenes(self) -> tuple[str, ...]:
        """The names of all scenes, sorted."""
        return tuple(sorted(self.tables.shots))

    @property
    def cameras(self) -> tuple[str, ...]:
        """The names of all cameras, sorted."""
        return self.tables.cameras

    @property
    def times(self) -> CameraTimes:
        """When each frame of each camera, and each sweep of the lidar, was taken, since 1970."""
        return CameraTimes.of(
            {
                scene: {
                    channel: [shot.timestamp_us for shot in shots]
                    for channel, shots in channels.items()
                }
                for scene, channels in self.tables.shots.items()
            },
            name="nuScenes' tables",
            unit="us",
        )

    def key_frames(self, sensor: str, scenes: Iterable[str] | None = None) -> dict[str, list[int]]:
        """Return scene → the frames of a camera, or sweeps of a lidar, that are key frames.

        They come at 2 Hz, and boxes are given for them: `Moments.frames(key_frames("CAM_FRONT"))`
        chooses them where CAM_FRONT is the reference.

        Args:
            sensor: Its channel.
            scenes: Names of those wanted; None: all.

        Raises:
            ConfigError: there is no such sensor, or scene.
        """
        sensors = sorted({name for channels in self.tables.shots.values() for name in channels})
        if sensor not in sensors:
            raise ConfigError(f"there is no sensor {sensor}; there is {', '.join(sensors)}")
        return {
            scene: [number for number, shot in enumerate(shots) if shot.is_key_frame]
            for scene in self._chosen(scenes)
            if (shots := self.tables.shots[scene].get(sensor))
        }

    def link_pictures(
        self, folder: str | os.PathLike[str], scenes: Iterable[str] | None = None
    ) -> CameraLayout:
        """Write links to the pictures, `<scene>/<camera>/00000.jpg`, and return their layout.

        nuScenes keeps pictures of all scenes together, key frames apart from sweeps; links bring
        them into the layout that loaders read, without a copy. Links that are there already are
        kept. The mini set has 14,000 pictures, and takes about a second.

        Args:
            folder: Where the links go; made if need be.
            scenes: Names of those wanted; None: all.

        Raises:
            ConfigError: there is no such scene, a picture is missing, or something else is in the
                way.
        """
        clips = []
        for name in self._chosen(scenes):
            channels = self.tables.shots[name]
            taken = [camera for camera in self.cameras if camera in channels]
            for camera in taken:
                files = [self.folder / shot.filename for shot in channels[camera]]
                link_pictures(files, Path(folder) / name / camera)
            clips.append(
                CameraClip(
                    video_dir=Path(folder),
                    name=name,
                    num_frames=len(channels[taken[0]]) if taken else 0,
                    picture_rate=PICTURES_PER_SECOND,
                )
            )
        return CameraLayout(clips=tuple(clips), cameras=self.cameras)

    def metadata(self, clip: str, moment: ClipMoment) -> dict[str, Any]:
        """Return what the tables have of a moment, cameras in the order of the batch.

        - `intrinsics` float64 [C, 3, 3], `sensor_to_ego` and `ego_to_global` float64 [C, 4, 4]: NaN
          where a camera has no frame; the car's pose is that at the time of each frame.
        - `filename`, a list of C; "" where there is none.
        - `sample_token` and `annotations`: of the key frame that the moment shows, "" and [] where
          it shows none. An annotation is a row of `sample_annotation` with its `category`.
        """
        channels = self.tables.shots.get(clip)
        if channels is None:
            raise ConfigError(
                f"nuScenes' tables have no scene {clip!r}; they have {', '.join(self.scenes[:6])}"
            )
        shown = [_shot(clip, camera, channels, moment) for camera in moment.cameras]
        keys = [shot.sample_token for shot in shown if shot is not None and shot.is_key_frame]
        sample = keys[0] if keys else ""
        calibrated = [self._row(shot, "calibrated_sensor") for shot in shown]
        return {
            "intrinsics": _stacked(
                [
                    np.array(row["camera_intrinsic"], np.float64) if row else None
                    for row in calibrated
                ],
                3,
            ),
            "sensor_to_ego": _stacked([_pose(row) for row in calibrated], 4),
            "ego_to_global": _stacked([_pose(self._row(shot, "ego_pose")) for shot in shown], 4),
            "filename": [shot.filename if shot is not None else "" for shot in shown],
            "sample_token": sample,
            "annotations": list(self.tables.annotations.get(sample, ())),
        }

    def _chosen(self, scenes: Iterable[str] | None) -> tuple[str, ...]:
        if isinstance(scenes, str):
            raise ConfigError(f"scenes must be a list of names, such as [{scenes!r}], got a text")
        names = self.scenes if scenes is None else tuple(map(str, scenes))
        unknown = [name for name in names if name not in self.tables.shots]
        if unknown or not names:
            raise ConfigError(
                f"there is no scene {', '.join(unknown)}; there is {', '.join(self.scenes[:6])} "
                f"({len(self.scenes)} in all), and scenes is a list of such"
            )
        return names

    def _row(self, shot: Shot | None, table: str) -> Row | None:
        if shot is None:
            return None
        if table == "ego_pose":
            return self.tables.ego_pose[shot.ego_pose_token]
        return self.tables.calibrated_sensor[shot.calibrated_sensor_token]


def _shot(
    clip: str, camera: str, channels: Mapping[str, Sequence[Shot]], moment: ClipMoment
) -> Shot | None:
    frame = moment.frames.get(camera)
    if frame is None:
        return None
    shots = channels.get(camera, ())
    if frame >= len(shots):
        raise ConfigError(
            f"nuScenes' tables have {len(shots)} frames of {camera} in {clip!r}, and frame {frame} "
            "was shown; make videos of just the frames that the tables list"
        )
    return shots[frame]


def _pose(row: Row | None) -> NDArray[np.float64] | None:
    """Return float64 [4, 4] of a row with rotation (quaternion w, x, y, z) and translation."""
    if row is None:
        return None
    w, x, y, z = np.array(row["rotation"], np.float64) / np.linalg.norm(row["rotation"])
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, 3] = row["translation"]
    return matrix


def _stacked(matrices: Sequence[NDArray[np.float64] | None], side: int) -> torch.Tensor:
    """Return float64 [cameras, side, side]; NaN where there is none."""
    nothing = np.full((side, side), np.nan)
    return torch.from_numpy(np.stack([nothing if each is None else each for each in matrices]))
