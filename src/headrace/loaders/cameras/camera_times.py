"""CameraTimes: when each frame of each camera was taken, from a file that knows it."""

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, reason_of
from headrace.loaders.manifest_rows import named_path, read_rows

TimeUnit = Literal["s", "ms", "us", "ns"]

PER_SECOND: Mapping[str, int] = MappingProxyType({"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9})
"""Unit → how many make a second."""
_WORDS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_UNITS: Mapping[str, Any] = MappingProxyType(
    _WORDS | {f"timestamp_{unit}": unit for unit in PER_SECOND}
)
_UNSAID = "timestamp"


def has_time(heads: Iterable[str]) -> bool:
    """Return whether one of the columns is called as times are."""
    return any(head == _UNSAID or head in _UNITS for head in heads)


def time_column(heads: Iterable[str], unit: TimeUnit | None, where: str) -> tuple[str, TimeUnit]:
    """Return the column of times among `heads`, and their unit.

    Raises:
        ConfigError: there is none, or two; or nothing says the unit, or two things do.
    """
    names = list(heads)
    found = [name for name in names if name == _UNSAID or name in _UNITS]
    if len(found) != 1:
        raise ConfigError(
            f"{where} must have one column of times, called {', '.join(_UNITS)}, or timestamp with "
            f"a unit given; it has {', '.join(found) or ', '.join(map(str, names))[:100]}"
        )
    name = found[0]
    said: TimeUnit | None = _UNITS.get(name, unit)
    if said is None:
        raise ConfigError(
            f"{where} has times in the column timestamp, which does not say their unit; give "
            f"unit=, one of {', '.join(PER_SECOND)}"
        )
    if unit not in (None, said):
        raise ConfigError(f"{where} has times in {name}, and unit={unit!r} was given; leave it out")
    return name, said


def seconds_of(value: object, unit: TimeUnit, where: str) -> float:
    """Return a time as it is written, in seconds: the nearest float64.

    Raises:
        ConfigError: it is no finite number; `where` says which.
    """
    try:
        if isinstance(value, str):
            value = int(value) if value.strip().lstrip("+-").isdigit() else float(value)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ValueError
        exact = int(value) if isinstance(value, Integral) else float(value)
        seconds = exact / PER_SECOND[unit]
        if not math.isfinite(seconds):
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{where} must be a number of {unit}, got {str(value)[:40]!r}") from error
    return seconds


def frame_number(value: Any, where: str) -> int:
    """Return the number of a frame as it is written.

    Raises:
        ConfigError: it is no whole number from 0 on; `where` says whose it is.
    """
    try:
        number = int(float(value))
        if isinstance(value, bool) or number != float(value) or number < 0:
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"frame of {where} must be a whole number from 0 on, got {value!r}"
        ) from error


_LARGEST_BYTES = 1 << 28
_CLIP_COLUMNS = ("clip", "scene")
_CAMERA_COLUMNS = ("camera", "channel")
_WANTS = '{"clip": {"camera": [0.0, 0.083, ...]}}'

Kind = Literal["camera", "clock"]


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraTimes:
    """When frames were taken, where the videos do not say: `Alignment(times=CameraTimes.read(p))`.

    A video that was written at a constant rate has lost the times of its frames. A file may have
    kept them: of each clip, for each camera, and for clocks besides, such as a lidar's, which may
    be what moments are counted by.
    """

    seconds: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(repr=False)
    """Clip → camera or clock → float64 [frames], on one clock, finite, never going back."""
    name: str = "the times"
    """What to call them in messages: the file."""

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, unit: TimeUnit | None = None) -> "CameraTimes":
        """Read the times of a file. Reads all of it; float64 keeps microseconds since 1970.

        JSON (`.json`): `{clip: {camera: [time of each frame]}}`, in seconds if no unit is given.
        CSV, .tsv, JSON lines and Parquet: a row for each frame, with the columns clip (or scene),
        camera (or channel), one of time: seconds, milliseconds, microseconds, nanoseconds, or
        timestamp_s, _ms, _us, _ns, or timestamp with a unit given; and, unless rows stand in the
        order of frames, frame: its number, from 0. Other columns are passed over.

        Args:
            path: Of the file.
            unit: Of its times: `s`, `ms`, `us` or `ns`, where no column says so.

        Raises:
            ConfigError: it cannot be read, or says no such thing; names clip, camera and frame.
            BackendError: it is Parquet, and pyarrow is not installed.
        """
        _check_unit(unit)
        file = named_path(path, "times")
        if file.suffix.lower() == ".json":
            return cls.of(_json(file), name=str(file), unit=unit or "s")
        return cls.of(*_table(file, unit))

    @classmethod
    def of(
        cls,
        clips: Mapping[str, Mapping[str, Any]],
        name: str = "the times",
        unit: TimeUnit = "s",
    ) -> "CameraTimes":
        """Return times that are given: of each clip, camera or clock → the time of each frame.

        Raises:
            ConfigError: they are no finite numbers by clip and camera, or go back.
        """
        _check_unit(unit)
        if not _is_nested(clips):
            raise ConfigError(f"{name} must read like {_WANTS}, got {clips!r:.60}")
        return cls(
            seconds={
                str(clip): {
                    str(camera): _checked(times, unit, f"{camera} of clip {clip!r} in {name}")
                    for camera, times in cameras.items()
                }
                for clip, cameras in clips.items()
            },
            name=name,
        )

    def of_frames(self, clip: str, camera: str, count: int) -> NDArray[np.float64]:
        """Return when each of the `count` frames of a camera was taken: float64 [count], seconds.

        Raises:
            ConfigError: there are none for it, or another number.
        """
        times = self.of_clock(clip, camera, "camera")
        if len(times) != count:
            raise ConfigError(
                f"{self.name} has {len(times)} times for {camera} of clip {clip!r}, and there are "
                f"{count} frames; each frame needs one: write the times of the frames that were "
                "kept, or the video anew"
            )
        return times

    def of_clock(self, clip: str, clock: str, kind: Kind = "clock") -> NDArray[np.float64]:
        """Return all times of a clock, or camera: float64 [times], seconds.

        Raises:
            ConfigError: there are none.
        """
        found = self.seconds.get(clip)
        if found is None:
            raise ConfigError(
                f"{self.name} has no times of clip {clip!r}; it has {_some(self.seconds)}"
            )
        if clock not in found:
            raise ConfigError(
                f"{self.name} has no times of the {kind} {clock!r} of clip {clip!r}; it has "
                f"{_some(found)}"
            )
        return found[clock]

    @property
    def clocks(self) -> frozenset[str]:
        """The names of all cameras and clocks that any clip has times of."""
        return frozenset(name for cameras in self.seconds.values() for name in cameras)


def _check_unit(unit: object) -> None:
    if unit not in (*PER_SECOND, None):
        raise ConfigError(f"unit must be one of {', '.join(PER_SECOND)}, got {unit!r}")


def _is_nested(clips: object) -> bool:
    if not (isinstance(clips, Mapping) and clips):
        return False
    return all(isinstance(each, Mapping) for each in clips.values())


def _checked(times: Any, unit: TimeUnit, where: str) -> NDArray[np.float64]:
    if isinstance(times, np.ndarray):
        times = times.tolist()
    if not isinstance(times, list | tuple) or not times:
        raise ConfigError(f"the times of {where} must be a list of numbers, not empty")
    found = np.array([seconds_of(each, unit, f"a time of {where}") for each in times])
    back = np.flatnonzero(np.diff(found) < 0)
    if len(back):
        frame = int(back[0]) + 1
        raise ConfigError(
            f"the times of {where} go back at frame {frame}, from {found[frame - 1]!s} to "
            f"{found[frame]!s} s; frames must be in the order in which they were taken"
        )
    found.flags.writeable = False
    return found


def _json(path: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_BYTES + 1)
        if len(text) > _LARGEST_BYTES:
            raise ConfigError(
                f"{path} is larger than {_LARGEST_BYTES >> 20} MiB; write the times as Parquet"
            )
        content = json.loads(text)
    except OSError as error:
        reason = reason_of(error)
        raise ConfigError(f"cannot read the times {path}: {reason}; give a file") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} holds no times, which read like {_WANTS}: {str(error)[:100]}"
        ) from error
    if not _is_nested(content):
        raise ConfigError(f"{path} holds no times, which read like {_WANTS}")
    return MappingProxyType(content)


def _table(path: Path, unit: TimeUnit | None) -> tuple[dict[str, dict[str, list[float]]], str]:
    """Return clip → camera → seconds in the order of frames, and the name of the file."""
    rows, places = read_rows(path, "table of times")
    if not rows:
        raise ConfigError(f"{path} holds no row; give one for each frame")
    heads = list(dict.fromkeys(head for row in rows for head in row))
    clip = _column(heads, _CLIP_COLUMNS, path)
    camera = _column(heads, _CAMERA_COLUMNS, path)
    time, of_time = time_column(heads, unit, str(path))
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for number, row in enumerate(rows):
        where = places.where(number)
        seconds = seconds_of(row.get(time), of_time, f"{time} of {where}")
        frames = found.setdefault(_said(row, clip, where), {}).setdefault(
            _said(row, camera, where), []
        )
        frame = frame_number(row["frame"], where) if "frame" in heads else len(frames)
        frames.append((frame, seconds))
    return {
        clip: {camera: _in_order(frames, clip, camera, path) for camera, frames in cameras.items()}
        for clip, cameras in found.items()
    }, str(path)


def _in_order(frames: list[tuple[int, float]], clip: str, camera: str, path: Path) -> list[float]:
    frames.sort(key=lambda each: each[0])
    for number, (frame, _) in enumerate(frames):
        if frame != number:
            what = "is there twice" if frame < number else f"follows, and {number} is missing"
            raise ConfigError(
                f"{camera} of clip {clip!r} in {path}: frame {frame} {what}; each frame needs one "
                "time, counted from 0"
            )
    return [seconds for _, seconds in frames]


def _column(heads: list[str], names: tuple[str, ...], path: Path) -> str:
    found = [name for name in names if name in heads]
    if len(found) != 1:
        raise ConfigError(
            f"{path} must have one column called {' or '.join(names)}; it has "
            f"{', '.join(map(str, heads))[:100]}"
        )
    return found[0]


def _said(row: Mapping[str, Any], column: str, where: str) -> str:
    value = row.get(column)
    if value is None or not str(value).strip():
        raise ConfigError(f"{where} has no {column}; give it one, or leave it out")
    return str(value).strip()


def _some(names: Mapping[str, object]) -> str:
    shown = sorted(names)[:6]
    return ", ".join(shown) + (f" and {len(names) - 6} more" if len(names) > 6 else "") or "none"
