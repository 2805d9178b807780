"""Rows of the tables of a small set in nuScenes' format."""

import math
from bisect import bisect_left
from hashlib import sha256
from itertools import pairwise
from typing import Any

from headrace.testing.nuscenes_set import LIDAR, NuScenesSet

Row = dict[str, Any]

_RADIANS_PER_SECOND = 0.05
_KEY_TOLERANCE_US = 100_000
_FORWARD = (0.5, -0.5, 0.5, -0.5)
"""Rotation from camera axes (z forward, y down) to car axes (x forward, z up), as w, x, y, z like
all rotations of nuScenes."""


def tables_of(spec: NuScenesSet) -> dict[str, list[Row]]:
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
