"""Small set of driving scenes in nuScenes' format: tables, and images or videos of six cameras.

scenes = NuScenesSet(durations_seconds=(2.0, 3.0))
folder = write_nuscenes(tmp_path / "set", scenes)
times = scenes.camera_times_us(scene=0, camera="CAM_FRONT")    # capture times of its frames
"""

import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import Image

from headrace.testing.nuscenes_rows import tables_of
from headrace.testing.nuscenes_set import CAMERAS, LIDAR, NuScenesSet
from headrace.testing.synth import SynthClip, write_clip
from headrace.testing.synth_pixels import draw_picture

__all__ = ["CAMERAS", "LIDAR", "NuScenesSet", "write_nuscenes"]


def write_nuscenes(folder: str | Path, asked: NuScenesSet | None = None) -> Path:
    """Write a set, and return its folder (nuScenes' `dataroot`).

    The default takes about 1.5 s and 4 MB. The lidar has times, but no points.
    """
    asked, folder = asked or NuScenesSet(), Path(folder)
    tables = tables_of(asked)
    (folder / asked.version).mkdir(parents=True)
    for name, rows in tables.items():
        (folder / asked.version / f"{name}.json").write_text(json.dumps(rows, indent=0), "utf-8")
    if asked.form == "videos":
        _write_videos(folder, asked)
    else:
        _write_pictures(folder, asked, (row for row in tables["sample_data"] if row["width"]))
    return folder


def _write_pictures(folder: Path, asked: NuScenesSet, rows: Iterable[Mapping[str, object]]) -> None:
    frames: dict[tuple[str, int], tuple[int, int]] = {}
    for scene in range(len(asked.scenes)):
        for camera in asked.cameras:
            times = asked.camera_times_us(scene, camera)
            frames |= {(camera, time): (scene, index) for index, time in enumerate(times)}
    for row in rows:
        path, taken_us = folder / str(row["filename"]), int(str(row["timestamp"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        scene, index = frames[path.parent.name, taken_us]
        picture = draw_picture(index, asked.size)
        if asked.drive == "rocking":  # a uniform grey, brighter the further the car is
            level = round(30 + 195 * asked.metres(scene, taken_us))
            picture = np.full((*asked.size, 3), level, np.uint8)
        Image.fromarray(picture).save(path, quality=90)


def _write_videos(folder: Path, asked: NuScenesSet) -> None:
    counts = {}
    for scene, name in enumerate(asked.scenes):
        (folder / "videos" / name).mkdir(parents=True)
        for camera in asked.cameras:
            count = len(asked.camera_times_us(scene, camera))
            clip = SynthClip(num_frames=count, size=asked.size, gop=12, frame_rate=Fraction(12))
            write_clip(folder / "videos" / name / camera, clip)
        counts[name] = len(asked.camera_times_us(scene, min(asked.cameras)))
    (folder / "index_frame.json").write_text(json.dumps({"videos": counts}, indent=1), "utf-8")
