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


def write_nuscenes(folder: str | Path, spec: NuScenesSet | None = None) -> Path:
    """Write a set, and return its folder (nuScenes' `dataroot`).

    The default set takes about 1.5 s and 4 MB. The lidar has times but no points.
    """
    spec, folder = spec or NuScenesSet(), Path(folder)
    tables = tables_of(spec)
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
