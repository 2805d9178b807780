"""nuScenes' own tables, read as far as pictures, times and poses need them.

The form is told at https://github.com/nutonomy/nuscenes-devkit, docs/schema_nuscenes.md.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from headrace.errors import ConfigError, file_errors, reason_of


def link_pictures(pictures: Sequence[Path], folder: Path) -> None:
    """Make `folder` hold links to `pictures`, numbered in their order: all of them, or none.

    A folder that does so already is left as it is.

    Raises:
        ConfigError: a picture is missing, the folder holds something else, or cannot be written.
    """
    targets = {
        f"{number:05d}{picture.suffix}": picture.absolute()
        for number, picture in enumerate(pictures)
    }
    missing = [path for path in targets.values() if not path.is_file()]
    if missing:
        raise ConfigError(
            f"{len(missing)} of {len(targets)} pictures are not there, the first is {missing[0]}; "
            "unpack the rest of the set, or choose scenes= that are complete"
        )
    with file_errors(
        f"cannot link pictures in {folder}",
        "give another folder, on a file system that has symbolic links",
    ):
        if folder.exists():
            _check_same(folder, targets)
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as begun:
            links = Path(begun) / folder.name
            links.mkdir()
            for name, target in targets.items():
                (links / name).symlink_to(target)
            _rename(links, folder)
        _check_same(folder, targets)


def _rename(links: Path, folder: Path) -> None:
    """Move links where they belong, unless another process was quicker, such as another rank."""
    try:
        links.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def _check_same(folder: Path, targets: dict[str, Path]) -> None:
    found = {each.name: each.readlink() for each in folder.iterdir() if each.is_symlink()}
    if found != targets or len(found) != len(list(folder.iterdir())):
        raise ConfigError(
            f"{folder} holds other files than links to these pictures; give an empty folder"
        )


Row = dict[str, Any]
Table = dict[str, Row]
"""Token → row."""

_LARGEST_BYTES = 1 << 32
"""sample_data.json of the whole set (v1.0-trainval) has 1.3 GB."""
_NEEDED: Mapping[str, Mapping[str, type]] = {
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
_OF_LABELS = ("category", "instance", "sample_annotation")
"""Which the test set does not have."""


class Shot(NamedTuple):
    """One frame of one sensor."""

    timestamp_us: int
    filename: str
    """Below the set's folder."""
    is_key_frame: bool
    sample_token: str
    ego_pose_token: str
    calibrated_sensor_token: str


@dataclass(frozen=True, kw_only=True, eq=False)
class NuScenesTables:
    """Rows by token, and the frames of each sensor of each scene in the order of time."""

    shots: Mapping[str, Mapping[str, tuple[Shot, ...]]]
    """Name of the scene → channel → frames; of cameras and lidars."""
    cameras: tuple[str, ...]
    """Channels that are cameras, sorted."""
    ego_pose: Table
    calibrated_sensor: Table
    annotations: Mapping[str, tuple[Row, ...]]
    """Token of the sample → its boxes, each with the name of its `category`."""


def read_tables(folder: Path, version: str) -> NuScenesTables:
    """Read the tables in `folder/version`: a second for the mini set, minutes for the whole one.

    Raises:
        ConfigError: a table is missing, cannot be read, or does not go together with the others.
    """
    if not (folder / version).is_dir():
        found = sorted(each.parent.name for each in folder.glob("*/sample_data.json"))
        raise ConfigError(
            f"there is no folder {folder / version} of nuScenes' tables; the versions in {folder} "
            f"are: {', '.join(found) or 'none'}"
        )
    tables = {name: _table(folder / version, name) for name in _NEEDED}
    names = {token: row["name"] for token, row in tables["scene"].items()}
    return NuScenesTables(
        shots=_shots(tables, names),
        cameras=tuple(
            sorted(e["channel"] for e in tables["sensor"].values() if e["modality"] == "camera")
        ),
        ego_pose=tables["ego_pose"],
        calibrated_sensor=tables["calibrated_sensor"],
        annotations=_annotations(tables),
    )


def _shots(
    tables: Mapping[str, Table], names: Mapping[str, str]
) -> dict[str, dict[str, tuple[Shot, ...]]]:
    found: dict[str, dict[str, list[Shot]]] = {name: {} for name in names.values()}
    for token, row in tables["sample_data"].items():
        at = "sample_data", token
        calibrated = _of(tables["calibrated_sensor"], row, "calibrated_sensor_token", *at)
        sensor = _of(tables["sensor"], calibrated, "sensor_token", *at)
        if sensor["modality"] not in ("camera", "lidar"):
            continue
        sample = _of(tables["sample"], row, "sample_token", *at)
        scene = _of(names, sample, "scene_token", *at)
        _of(tables["ego_pose"], row, "ego_pose_token", *at)
        parts = PurePosixPath(row["filename"])
        if parts.is_absolute() or ".." in parts.parts or "\0" in row["filename"]:
            raise ConfigError(
                f"sample_data {token} names a file {row['filename']!r}, which is not inside the set"
            )
        shot = Shot(
            timestamp_us=row["timestamp"],
            filename=row["filename"],
            is_key_frame=row["is_key_frame"],
            sample_token=row["sample_token"],
            ego_pose_token=row["ego_pose_token"],
            calibrated_sensor_token=row["calibrated_sensor_token"],
        )
        found[scene].setdefault(sensor["channel"], []).append(shot)
    return {
        scene: {channel: tuple(sorted(shots)) for channel, shots in channels.items()}
        for scene, channels in found.items()
    }


def _annotations(tables: Mapping[str, Table]) -> dict[str, tuple[Row, ...]]:
    found: dict[str, list[Row]] = {}
    for token, row in tables["sample_annotation"].items():
        at = "sample_annotation", token
        instance = _of(tables["instance"], row, "instance_token", *at)
        category = _of(tables["category"], instance, "category_token", *at)
        found.setdefault(row["sample_token"], []).append({**row, "category": category["name"]})
    return {token: tuple(rows) for token, rows in found.items()}


def _of(table: Mapping[str, Any], row: Row, field: str, name: str, token: str) -> Any:
    """Return what a row refers to. `name` and `token` say whose row it is, for the message."""
    found = table.get(row[field])
    if found is None:
        raise ConfigError(
            f"{name} {token} refers to {field} {row[field]!r}, which its table does not have; are "
            "all tables of one version?"
        )
    return found


def _table(folder: Path, name: str) -> Table:
    path = folder / f"{name}.json"
    if name in _OF_LABELS and not path.exists():
        return {}
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path} is larger than {_LARGEST_BYTES >> 30} GiB; is it a table?")
        rows = json.loads(path.read_bytes())
    except OSError as error:
        reason = reason_of(error)
        raise ConfigError(
            f"cannot read the table {path}: {reason}; unpack the metadata of the set there"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no table of nuScenes: {str(error)[:100]}") from error
    if not isinstance(rows, list):
        raise ConfigError(f"{path} is no table of nuScenes, which is a list of rows")
    fields = {"token": str, **_NEEDED[name]}
    for number, row in enumerate(rows):
        for field, kind in fields.items():
            if not isinstance(row, dict) or type(row.get(field)) is not kind:
                raise ConfigError(
                    f"row {number} of {path} has no {field}, which must be of type {kind.__name__}"
                )
    return {row["token"]: row for row in rows}
