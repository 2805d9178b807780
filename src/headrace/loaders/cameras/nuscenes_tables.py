"""NuScenesTables: the tables of nuScenes that hold frames, times, poses and boxes.

Format: https://github.com/nutonomy/nuscenes-devkit, docs/schema_nuscenes.md.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from headrace.errors import ConfigError, file_errors, reason_of


def link_images(images: Sequence[Path], folder: Path) -> None:
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
        "translation": list,
        "rotation": list,
        "camera_intrinsic": list,
    },
    "ego_pose": {"translation": list, "rotation": list},
    "sample_data": {
        "sample_token": str,
        "ego_pose_token": str,
        "calibrated_sensor_token": str,
        "timestamp": int,
        "is_key_frame": bool,
        "filename": str,
    },
    "category": {"name": str},
    "instance": {"category_token": str},
    "sample_annotation": {
        "sample_token": str,
        "instance_token": str,
        "translation": list,
        "size": list,
        "rotation": list,
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


def read_tables(folder: Path, version: str) -> NuScenesTables:
    """Read the tables in `folder/version`: a second for the mini set, minutes for the full one.

    Raises:
        ConfigError: a table is missing, cannot be read, or contradicts another one.
    """
    if not (folder / version).is_dir():
        versions = sorted(path.parent.name for path in folder.glob("*/sample_data.json"))
        raise ConfigError(
            f"there is no folder {folder / version} of nuScenes' tables; versions in {folder}: "
            f"{', '.join(versions) or 'none'}"
        )
    tables = {name: _read_table(folder / version, name) for name in _FIELDS}
    sensors = tables["sensor"].values()
    return NuScenesTables(
        frames=_sensor_frames(tables),
        cameras=tuple(sorted(row["channel"] for row in sensors if row["modality"] == "camera")),
        ego_pose=tables["ego_pose"],
        calibrated_sensor=tables["calibrated_sensor"],
        annotations=_annotations(tables),
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
