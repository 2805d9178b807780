"""NuScenes: a dataset in nuScenes' format as clips, times and metadata.

Format: https://github.com/nutonomy/nuscenes-devkit, docs/schema_nuscenes.md.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError, file_errors, reason_of
from headrace.loaders.cameras.camera_times import CameraTimes
from headrace.loaders.cameras.moment_table import ClipMoment
from headrace.loaders.manifest_rows import named_path
from headrace.video.camera_layout import CameraClip, CameraLayout

Row = dict[str, Any]
Table = dict[str, Row]
"""Token → row."""

_MAX_BYTES = 1 << 32
"""Max bytes of a table; sample_data.json of the full set (v1.0-trainval) has 1.3 GB."""
_FIELDS: Mapping[str, Mapping[str, type]] = {
    "scene": {"name": str},
    "sample": {"timestamp": int, "scene_token": str},
    "sensor": {"channel": str, "modality": str},
    "calibrated_sensor": {
        "sensor_token": str,
        **dict.fromkeys(("translation", "rotation", "camera_intrinsic"), list),
    },
    "ego_pose": {"translation": list, "rotation": list},
    "sample_data": {
        **dict.fromkeys(("sample_token", "ego_pose_token", "calibrated_sensor_token"), str),
        **{"timestamp": int, "is_key_frame": bool, "filename": str},
    },
    "category": {"name": str},
    "instance": {"category_token": str},
    "sample_annotation": {
        **dict.fromkeys(("sample_token", "instance_token"), str),
        **dict.fromkeys(("translation", "size", "rotation"), list),
    },
}
"""Table → its required fields and their types."""
_LABEL_TABLES = ("category", "instance", "sample_annotation")
"""Tables that the test split does not have."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NuScenesTables:
    """Rows by token, and the frames of each sensor of each scene in the order of time."""

    frames: Mapping[str, Mapping[str, tuple[Row, ...]]]
    """Name of the scene → channel → frames of cameras and lidars: rows of sample_data with only
    their required fields."""
    cameras: tuple[str, ...]
    """Channels of cameras, sorted."""
    ego_pose: Table
    calibrated_sensor: Table
    annotations: Mapping[str, tuple[Row, ...]]
    """Token of the sample → its boxes, with the name of the `category`."""

    @classmethod
    def read(cls, folder: Path, version: str) -> Self:
        """Read the tables in `folder/version`. Raises as `NuScenes.read`."""
        if not (folder / version).is_dir():
            versions = sorted(path.parent.name for path in folder.glob("*/sample_data.json"))
            raise ConfigError(
                f"there is no folder {folder / version} of nuScenes' tables; versions in {folder}: "
                f"{', '.join(versions) or 'none'}"
            )
        tables = {name: _read_table(folder / version, name) for name in _FIELDS}
        sensors = tables["sensor"].values()
        return cls(
            frames=_sensor_frames(tables),
            cameras=tuple(sorted(row["channel"] for row in sensors if row["modality"] == "camera")),
            ego_pose=tables["ego_pose"],
            calibrated_sensor=tables["calibrated_sensor"],
            annotations=_annotations(tables),
        )


_FRAME_RATE = 12
"""Frames per second of nuScenes' cameras; `NuScenes.times` has the exact times."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NuScenes:
    """Scenes of nuScenes for camera loaders.

        nuscenes = NuScenes.read("/data/nuscenes", "v1.0-mini")
        layout = nuscenes.link_pictures("links")
        alignment = Alignment(sync="nearest", times=nuscenes.times)
        with CameraLoader(layout, alignment=alignment, metadata=nuscenes.metadata) as loader: ...

    A clip is a scene, and has its name. Frame k of a camera is its k-th frame in the scene, in the
    order of time, key frames and sweeps together. A video made from a scene must have exactly these
    frames.
    """

    folder: Path
    """The folder of `samples/` and `sweeps/` (`dataroot`)."""
    tables: NuScenesTables

    @classmethod
    def read(cls, folder: str | os.PathLike[str], version: str = "v1.0-mini") -> "NuScenes":
        """Read the tables in `folder/version`; opens no image.

        The mini set takes a second. The full set needs about 10 GB of memory, like nuScenes'
        development kit.

        Raises:
            ConfigError: a table is missing, cannot be read, or contradicts another one.
        """
        path = named_path(folder, "a dataset in nuScenes' format")
        return cls(folder=path, tables=NuScenesTables.read(path, version))

    @property
    def scenes(self) -> tuple[str, ...]:
        """Names of all scenes, sorted."""
        return tuple(sorted(self.tables.frames))

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of all cameras, sorted."""
        return self.tables.cameras

    @property
    def times(self) -> CameraTimes:
        """Capture times of each frame of each camera and lidar, since 1970."""
        return CameraTimes.of(
            {
                scene: {
                    channel: [frame["timestamp"] for frame in frames]
                    for channel, frames in channels.items()
                }
                for scene, channels in self.tables.frames.items()
            },
            name="nuScenes' tables",
            unit="us",
        )

    def key_frames(self, sensor: str, scenes: Iterable[str] | None = None) -> dict[str, list[int]]:
        """Return scene → the key frames of a camera or lidar, as frame numbers.

        Key frames have boxes, and come at 2 Hz. `Moments.frames(key_frames("CAM_FRONT"))` selects
        them if CAM_FRONT is the reference.

        Args:
            sensor: Channel of the sensor.
            scenes: Names of scenes; None: all.

        Raises:
            ConfigError: the sensor or a scene does not exist.
        """
        channels = sorted({name for scene in self.tables.frames.values() for name in scene})
        if sensor not in channels:
            raise ConfigError(f"there is no sensor {sensor}; choose one of {', '.join(channels)}")
        return {
            scene: [number for number, frame in enumerate(frames) if frame["is_key_frame"]]
            for scene in self._check_scenes(scenes)
            if (frames := self.tables.frames[scene].get(sensor))
        }

    def link_pictures(
        self, folder: str | os.PathLike[str], scenes: Iterable[str] | None = None
    ) -> CameraLayout:
        """Write links to the images, `<scene>/<camera>/00000.jpg`, and return their layout.

        nuScenes keeps the images of all scenes in one folder, and key frames and sweeps in separate
        folders. Links arrange them as loaders read them, without a copy. Existing links are kept.
        The mini set has 14,000 images, and takes about a second.

        Args:
            folder: Folder of the links; created if needed.
            scenes: Names of scenes; None: all.

        Raises:
            ConfigError: a scene does not exist, an image is missing, or the folder holds other
                files.
        """
        clips = []
        for name in self._check_scenes(scenes):
            channels = self.tables.frames[name]
            cameras = [camera for camera in self.cameras if camera in channels]
            for camera in cameras:
                files = [self.folder / frame["filename"] for frame in channels[camera]]
                _link_images(files, Path(folder) / name / camera)
            clips.append(
                CameraClip(
                    video_dir=Path(folder),
                    name=name,
                    num_frames=len(channels[cameras[0]]) if cameras else 0,
                    picture_rate=_FRAME_RATE,
                )
            )
        return CameraLayout(clips=tuple(clips), cameras=self.cameras)

    def metadata(self, clip: str, moment: ClipMoment) -> dict[str, Any]:
        """Return calibration, poses and boxes of a moment, cameras in the order of the batch.

        - `intrinsics` float64 [C, 3, 3], `sensor_to_ego` and `ego_to_global` float64 [C, 4, 4]: NaN
          where a camera has no frame. The ego pose is the one at the time of each frame.
        - `filename`, a list of C; "" where a camera has no frame.
        - `sample_token` and `annotations` of the moment's key frame; "" and [] without a key frame.
          An annotation is a row of `sample_annotation` with its `category`.

        Raises:
            ConfigError: the scene does not exist, or has fewer frames than its video.
        """
        if clip not in self.tables.frames:
            raise ConfigError(
                f"nuScenes' tables have no scene {clip!r}; they have {', '.join(self.scenes[:6])}"
            )
        frames = [self._frame(clip, camera, moment) for camera in moment.cameras]
        intrinsics = np.full((len(frames), 3, 3), np.nan)
        sensor_to_ego, ego_to_global = np.full((2, len(frames), 4, 4), np.nan)
        sample = ""
        for camera, frame in enumerate(frames):
            if frame is None:
                continue
            if frame["is_key_frame"]:
                sample = sample or frame["sample_token"]
            sensor = self.tables.calibrated_sensor[frame["calibrated_sensor_token"]]
            intrinsics[camera] = np.reshape(sensor["camera_intrinsic"], (3, 3))
            sensor_to_ego[camera] = _pose_matrix(sensor)
            ego_to_global[camera] = _pose_matrix(self.tables.ego_pose[frame["ego_pose_token"]])
        return {
            "intrinsics": torch.from_numpy(intrinsics),
            "sensor_to_ego": torch.from_numpy(sensor_to_ego),
            "ego_to_global": torch.from_numpy(ego_to_global),
            "filename": ["" if frame is None else frame["filename"] for frame in frames],
            "sample_token": sample,
            "annotations": list(self.tables.annotations.get(sample, ())),
        }

    def _check_scenes(self, scenes: Iterable[str] | None) -> tuple[str, ...]:
        if isinstance(scenes, str):
            raise ConfigError(f"scenes must be a list of names, got a string; use [{scenes!r}]")
        names = self.scenes if scenes is None else tuple(map(str, scenes))
        unknown = [name for name in names if name not in self.tables.frames]
        if unknown or not names:
            raise ConfigError(
                f"scenes must be names of the {len(self.scenes)} scenes of the dataset, such as "
                f"{', '.join(self.scenes[:6])}; got {', '.join(unknown) or 'none'}"
            )
        return names

    def _frame(self, clip: str, camera: str, moment: ClipMoment) -> Row | None:
        """Return the row of a camera's frame at a moment; None: it has none."""
        number, frames = moment.frames.get(camera), self.tables.frames[clip].get(camera, ())
        if number is not None and number >= len(frames):
            raise ConfigError(
                f"nuScenes' tables have {len(frames)} frames of {camera} in {clip!r}, but its "
                f"video has a frame {number}; make videos of exactly the frames in the tables"
            )
        return None if number is None else frames[number]


def _pose_matrix(row: Row) -> NDArray[np.float64]:
    """Return the pose, float64 [4, 4], of a row with rotation (quaternion wxyz) and translation."""
    w, x, y, z = np.array(row["rotation"], np.float64) / np.linalg.norm(row["rotation"])
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, 3] = row["translation"]
    return matrix


def _link_images(images: Sequence[Path], folder: Path) -> None:
    """Fill `folder` with links to `images`, numbered in order; all of them, or none.

    A folder that already has exactly these links is not changed.

    Raises:
        ConfigError: an image is missing, or the folder holds other files or cannot be written.
    """
    targets = {
        f"{number:05d}{image.suffix}": image.absolute() for number, image in enumerate(images)
    }
    missing = [path for path in targets.values() if not path.is_file()]
    if missing:
        raise ConfigError(
            f"{len(missing)} of {len(targets)} images are missing, the first is {missing[0]}; "
            "unpack the rest of the dataset, or select complete scenes with scenes="
        )
    with file_errors(
        f"cannot link images in {folder}",
        "give another folder, on a file system that has symbolic links",
    ):
        if folder.exists():
            _check_links(folder, targets)
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
            links = Path(temporary) / folder.name
            links.mkdir()
            for name, target in targets.items():
                (links / name).symlink_to(target)
            try:
                links.rename(folder)
            except OSError:
                if not folder.exists():  # otherwise another process, such as a rank, was faster
                    raise
        _check_links(folder, targets)


def _check_links(folder: Path, targets: dict[str, Path]) -> None:
    links = {path.name: path.readlink() for path in folder.iterdir() if path.is_symlink()}
    if links != targets or len(links) != len(list(folder.iterdir())):
        raise ConfigError(
            f"{folder} has files other than links to these images; give an empty folder"
        )


def _sensor_frames(tables: Mapping[str, Table]) -> dict[str, dict[str, tuple[Row, ...]]]:
    scenes: dict[str, dict[str, list[Row]]] = {row["name"]: {} for row in tables["scene"].values()}
    for token, row in tables["sample_data"].items():
        where = f"sample_data {token}"
        calibrated = _follow(tables, "calibrated_sensor", row, where)
        sensor = _follow(tables, "sensor", calibrated, where)
        if sensor["modality"] not in ("camera", "lidar"):
            continue
        scene = _follow(tables, "scene", _follow(tables, "sample", row, where), where)
        _follow(tables, "ego_pose", row, where)
        path = PurePosixPath(row["filename"])
        if path.is_absolute() or ".." in path.parts or "\0" in row["filename"]:
            raise ConfigError(
                f"{where} has the file name {row['filename']!r}, which is outside the dataset"
            )
        frame = {name: row[name] for name in _FIELDS["sample_data"]}  # drops other fields
        scenes[scene["name"]].setdefault(sensor["channel"], []).append(frame)
    return {
        scene: {
            channel: tuple(sorted(frames, key=itemgetter("timestamp", "filename")))
            for channel, frames in channels.items()
        }
        for scene, channels in scenes.items()
    }


def _annotations(tables: Mapping[str, Table]) -> dict[str, tuple[Row, ...]]:
    samples: dict[str, list[Row]] = {}
    for token, row in tables["sample_annotation"].items():
        where = f"sample_annotation {token}"
        instance = _follow(tables, "instance", row, where)
        category = _follow(tables, "category", instance, where)
        samples.setdefault(row["sample_token"], []).append({**row, "category": category["name"]})
    return {token: tuple(rows) for token, rows in samples.items()}


def _follow(tables: Mapping[str, Table], table: str, row: Row, where: str) -> Row:
    """Return the row of `table` that `row` refers to; `where` names `row` in the message."""
    token = row[f"{table}_token"]
    target = tables[table].get(token)
    if target is None:
        raise ConfigError(
            f"{where} refers to {table}_token {token!r}, which is not in its table; use tables of "
            "one version"
        )
    return target


def _read_table(folder: Path, name: str) -> Table:
    path = folder / f"{name}.json"
    if name in _LABEL_TABLES and not path.exists():
        return {}
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(
                f"{path} is larger than {_MAX_BYTES >> 30} GiB, which no table of nuScenes is"
            )
        rows = json.loads(path.read_bytes())
    except OSError as error:
        reason = reason_of(error)
        raise ConfigError(
            f"cannot read the table {path}: {reason}; unpack the metadata of the dataset there"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not a table of nuScenes: {str(error)[:100]}") from error
    if not isinstance(rows, list):
        raise ConfigError(f"{path} is not a table of nuScenes, which is a list of rows")
    fields = {"token": str, **_FIELDS[name]}
    for number, row in enumerate(rows):
        for field, kind in fields.items():
            if not isinstance(row, dict) or type(row.get(field)) is not kind:
                raise ConfigError(
                    f"row {number} of {path} has no {field}, which must be of type {kind.__name__}"
                )
    return {row["token"]: row for row in rows}
