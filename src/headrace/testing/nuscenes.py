"""Small set of driving scenes in nuScenes' format: tables, and images or videos of six cameras.

scenes = NuScenesSet(durations_seconds=(2.0, 3.0))
folder = write_nuscenes(tmp_path / "set", scenes)
times = scenes.camera_times_us(scene=0, camera="CAM_FRONT")    # capture times of its frames
"""

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
from PIL import Image

from headrace.errors import ConfigError
from headrace.testing.synth import SynthClip, write_clip
from headrace.testing.synth_pixels import draw_picture

__all__ = ["CAMERAS", "LIDAR", "NuScenesSet", "write_nuscenes"]

CAMERAS = (
    "CAM_FRONT",
    "CAM_FRONT_RIGHT",
    "CAM_BACK_RIGHT",
    "CAM_BACK",
    "CAM_BACK_LEFT",
    "CAM_FRONT_LEFT",
)
"""Cameras in the order of the lidar's rotation."""
LIDAR = "LIDAR_TOP"

_FIRST_US = 1_532_402_927_000_000
_SCENE_US = 60_000_000
_CAMERA_PERIOD_US = Fraction(10**6, 12)
_LIDAR_PERIOD_US = 50_000
_SWEEPS_OF_A_SAMPLE = 10
_METRES_PER_SECOND = 5.0
_TURN_US = 6_000
"""Microseconds of the lidar's rotation from one camera, which it triggers, to the next."""


@dataclass(frozen=True, kw_only=True)
class NuScenesSet:
    """A set: cameras at 12 Hz, the lidar at 20 Hz, and key frames (samples) at 2 Hz.

    Cameras start 6 ms apart, and their times jitter, as if triggered by a rotating lidar. Pixels
    carry the index of the frame in its camera and scene (`headrace.testing.synth.read_number`).
    """

    durations_seconds: tuple[float, ...] = (2.0, 3.0, 1.5)
    """Duration of each scene; names are `scene-0001`, `scene-0002`, ..."""
    cameras: tuple[str, ...] = CAMERAS
    size: tuple[int, int] = (96, 128)
    """(height, width) of all images."""
    form: Literal["pictures", "videos"] = "pictures"
    """`pictures`: JPEGs in `samples/` and `sweeps/`, as in nuScenes. `videos`:
    `videos/<scene>/<camera>.mp4` at a constant 12 frames/s, without the real times, and
    `index_frame.json`."""
    jitter_ms: float = 3.0
    """Maximum deviation of a time in milliseconds, in either direction."""
    lost: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Camera → missing frames in every scene, numbered at an even 12 Hz."""
    drive: Literal["straight", "rocking"] = "straight"
    """`straight`: at 5 m/s. `rocking`: at random within a metre; images have no number, and their
    brightness is the position, so an image does not determine the previous ones."""
    version: str = "v1.0-mini"
    """Name of the folder with the tables."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.durations_seconds or min(self.durations_seconds) < 0.5:
            raise ConfigError("a scene must last at least 0.5 s, the period of key frames")
        if self.drive == "rocking" and self.form != "pictures":
            raise ConfigError("drive='rocking' needs form='pictures'; leave out form")

    @property
    def scenes(self) -> tuple[str, ...]:
        """Names of the scenes."""
        return tuple(f"scene-{number + 1:04d}" for number in range(len(self.durations_seconds)))

    def camera_times_us(self, scene: int, camera: str) -> list[int]:
        """Return the capture times of a camera's frames: microseconds since 1970, ascending."""
        position, rng = self.cameras.index(camera), Random(f"{self.seed} {scene} {camera}")
        count = int(self.durations_seconds[scene] * 12)
        jitter = round(self.jitter_ms * 1000)
        first = _FIRST_US + scene * _SCENE_US + position * _TURN_US
        times = [
            first + round(number * _CAMERA_PERIOD_US) + rng.randint(-jitter, jitter)
            for number in range(count)
        ]
        lost = self.lost.get(camera, ())
        return [time for number, time in enumerate(times) if number not in lost]

    def metres(self, scene: int, time_us: int) -> float:
        """Return the position of the car along its path at a time."""
        if self.drive == "straight":
            return _METRES_PER_SECOND * (time_us - self.sample_times_us(scene)[0]) / 1e6
        period = float((time_us - _FIRST_US - scene * _SCENE_US) / _CAMERA_PERIOD_US)
        before = math.floor(period)
        start, end = (
            Random(f"{self.seed} {scene} {knot}").random() for knot in (before, before + 1)
        )
        return start + (end - start) * (period - before)

    def lidar_times_us(self, scene: int) -> list[int]:
        """Return the times of the lidar's sweeps: microseconds since 1970, ascending."""
        rng = Random(f"{self.seed} {scene} {LIDAR}")
        first = _FIRST_US + scene * _SCENE_US
        return [
            first + number * _LIDAR_PERIOD_US + rng.randint(-1000, 1000)
            for number in range(int(self.durations_seconds[scene] * 20))
        ]

    def sample_times_us(self, scene: int) -> list[int]:
        """Return the times of key frames: of every tenth sweep of the lidar."""
        return self.lidar_times_us(scene)[::_SWEEPS_OF_A_SAMPLE]


def write_nuscenes(folder: str | Path, spec: NuScenesSet | None = None) -> Path:
    """Write a set, and return its folder (nuScenes' `dataroot`).

    The default set takes about 1.5 s and 4 MB. The lidar has times but no points.
    """
    spec, folder = spec or NuScenesSet(), Path(folder)
    tables = _tables_of(spec)
    (folder / spec.version).mkdir(parents=True)
    for name, rows in tables.items():
        (folder / spec.version / f"{name}.json").write_text(json.dumps(rows, indent=0), "utf-8")
    if spec.form == "videos":
        _write_videos(folder, spec)
    else:
        _write_pictures(folder, spec, (row for row in tables["sample_data"] if row["width"]))
    return folder


def _write_pictures(folder: Path, spec: NuScenesSet, rows: Iterable[Mapping[str, object]]) -> None:
    frames: dict[tuple[str, int], tuple[int, int]] = {}
    for scene in range(len(spec.scenes)):
        for camera in spec.cameras:
            times = spec.camera_times_us(scene, camera)
            frames |= {(camera, time): (scene, index) for index, time in enumerate(times)}
    for row in rows:
        path, taken_us = folder / str(row["filename"]), int(str(row["timestamp"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        scene, index = frames[path.parent.name, taken_us]
        picture = draw_picture(index, spec.size)
        if spec.drive == "rocking":  # a uniform grey, brighter the farther the car
            level = round(30 + 195 * spec.metres(scene, taken_us))
            picture = np.full((*spec.size, 3), level, np.uint8)
        Image.fromarray(picture).save(path, quality=90)


def _write_videos(folder: Path, spec: NuScenesSet) -> None:
    counts = {}
    for scene, name in enumerate(spec.scenes):
        (folder / "videos" / name).mkdir(parents=True)
        for camera in spec.cameras:
            count = len(spec.camera_times_us(scene, camera))
            clip = SynthClip(num_frames=count, size=spec.size, gop=12, frame_rate=Fraction(12))
            write_clip(folder / "videos" / name / camera, clip)
        counts[name] = len(spec.camera_times_us(scene, min(spec.cameras)))
    (folder / "index_frame.json").write_text(json.dumps({"videos": counts}, indent=1), "utf-8")


Row = dict[str, Any]

_RADIANS_PER_SECOND = 0.05
_KEY_TOLERANCE_US = 100_000
_FORWARD = (0.5, -0.5, 0.5, -0.5)
"""Rotation from camera axes (z forward, y down) to car axes (x forward, z up), as w, x, y, z like
all rotations of nuScenes."""


def _tables_of(spec: NuScenesSet) -> dict[str, list[Row]]:
    """Return table name → rows, in the format of nuScenes v1.0."""
    tables: dict[str, list[Row]] = {
        "category": [
            {"token": _token("category", name), "name": name, "description": ""}
            for name in ("vehicle.car", "human.pedestrian.adult")
        ],
        "attribute": [],
        "visibility": [{"token": "4", "level": "v80-100", "description": ""}],
        "sensor": [
            {
                "token": _token("sensor", channel),
                "channel": channel,
                "modality": "lidar" if channel == LIDAR else "camera",
            }
            for channel in (*spec.cameras, LIDAR)
        ],
        "map": [],
    }
    for number in range(len(spec.scenes)):
        for name, rows in _scene(spec, number).items():
            tables.setdefault(name, []).extend(rows)
    return tables


def _scene(spec: NuScenesSet, number: int) -> dict[str, list[Row]]:
    name, times = spec.scenes[number], spec.sample_times_us(number)
    samples: list[Row] = [
        {"token": _token("sample", name, time), "timestamp": time, "scene_token": _token(name)}
        for time in times
    ]
    _link(samples)
    sensors = [_sensor_rows(spec, number, channel) for channel in (*spec.cameras, LIDAR)]
    data = [row for rows, _ in sensors for row in rows]
    annotations = [_annotation(name, row) for row in samples]
    _link(annotations)
    category = ("vehicle.car", "human.pedestrian.adult")[number % 2]
    return {
        "log": [
            {
                "token": _token("log", name),
                "logfile": f"n000-{name}",
                "vehicle": "n000",
                "date_captured": "2018-07-24",
                "location": "nowhere",
            }
        ],
        "scene": [
            {
                "token": _token(name),
                "log_token": _token("log", name),
                "nbr_samples": len(samples),
                "first_sample_token": samples[0]["token"],
                "last_sample_token": samples[-1]["token"],
                "name": name,
                "description": "made for tests",
            }
        ],
        "sample": samples,
        "sample_data": data,
        "ego_pose": [_pose(spec, number, row) for row in data],
        "calibrated_sensor": [calibrated for _, calibrated in sensors],
        "instance": [
            {
                "token": _token("instance", name),
                "category_token": _token("category", category),
                "nbr_annotations": len(annotations),
                "first_annotation_token": annotations[0]["token"],
                "last_annotation_token": annotations[-1]["token"],
            }
        ],
        "sample_annotation": annotations,
    }


def _sensor_rows(spec: NuScenesSet, scene: int, channel: str) -> tuple[list[Row], Row]:
    """Return a sensor's rows of sample_data in a scene, and its calibrated_sensor."""
    name, samples = spec.scenes[scene], spec.sample_times_us(scene)
    is_lidar = channel == LIDAR
    times = spec.lidar_times_us(scene) if is_lidar else spec.camera_times_us(scene, channel)
    keys = {
        nearest
        for sample in samples
        if abs((nearest := _nearest(times, sample)) - sample) <= _KEY_TOLERANCE_US
    }
    calibrated = _token("calibrated_sensor", name, channel)
    height, width = (0, 0) if is_lidar else spec.size
    suffix = "pcd.bin" if is_lidar else "jpg"
    rows: list[Row] = [
        {
            "token": _token("sample_data", name, channel, time),
            "sample_token": _token("sample", name, _nearest(samples, time)),
            "ego_pose_token": _token("ego_pose", name, channel, time),
            "calibrated_sensor_token": calibrated,
            "timestamp": time,
            "fileformat": "pcd" if is_lidar else "jpg",
            "is_key_frame": time in keys,
            "height": height,
            "width": width,
            "filename": f"{'samples' if time in keys else 'sweeps'}/{channel}/"
            f"n000-{name}__{channel}__{time}.{suffix}",
        }
        for time in times
    ]
    _link(rows)
    return rows, _calibrated_sensor(spec, calibrated, channel)


def _calibrated_sensor(spec: NuScenesSet, token: str, channel: str) -> Row:
    height, width = spec.size
    row: Row = {"token": token, "sensor_token": _token("sensor", channel)}
    if channel == LIDAR:
        return row | {
            "translation": [0.94, 0.0, 1.84],
            "rotation": list(_yaw(-math.pi / 2)),
            "camera_intrinsic": [],
        }
    yaw = -2 * math.pi * spec.cameras.index(channel) / len(spec.cameras)
    focal = 0.8 * width
    return row | {
        "translation": [1.5 * math.cos(yaw), 0.5 * math.sin(yaw), 1.5],
        "rotation": list(_product(_yaw(yaw), _FORWARD)),
        "camera_intrinsic": [[focal, 0.0, width / 2], [0.0, focal, height / 2], [0.0, 0.0, 1.0]],
    }


def _pose(spec: NuScenesSet, scene: int, data: Row) -> Row:
    """Return the pose of the car, which rotates slowly."""
    seconds = (data["timestamp"] - spec.sample_times_us(scene)[0]) / 1e6
    return {
        "token": data["ego_pose_token"],
        "timestamp": data["timestamp"],
        "rotation": list(_yaw(_RADIANS_PER_SECOND * seconds)),
        "translation": [spec.metres(scene, data["timestamp"]), 10.0 * scene, 0.0],
    }


def _annotation(scene: str, sample: Row) -> Row:
    """Return the only box of a key frame: an object beside the road."""
    return {
        "token": _token("sample_annotation", sample["token"]),
        "sample_token": sample["token"],
        "instance_token": _token("instance", scene),
        "visibility_token": "4",
        "attribute_tokens": [],
        "translation": [20.0, 3.0, 1.0],
        "size": [1.9, 4.6, 1.6],
        "rotation": [1.0, 0.0, 0.0, 0.0],
        "num_lidar_pts": 10,
        "num_radar_pts": 0,
    }


def _link(rows: list[Row]) -> None:
    """Set `prev` and `next` of consecutive rows to the tokens of their neighbours."""
    for row in rows:
        row["prev"] = row["next"] = ""
    for before, after in pairwise(rows):
        before["next"], after["prev"] = after["token"], before["token"]


def _nearest(times: list[int], moment: int) -> int:
    after = bisect_left(times, moment)
    return min(times[max(0, after - 1) : after + 1], key=lambda time: abs(time - moment))


def _token(*parts: object) -> str:
    """Return the token of `parts`: 32 hexadecimal digits, as in nuScenes."""
    return sha256("/".join(map(str, parts)).encode()).hexdigest()[:32]


def _yaw(radians: float) -> tuple[float, float, float, float]:
    return math.cos(radians / 2), 0.0, 0.0, math.sin(radians / 2)


def _product(
    a: tuple[float, float, float, float], b: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    """Return the quaternion of a rotation by `b`, then by `a`, as w, x, y, z."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )
