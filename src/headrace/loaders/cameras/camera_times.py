"""CameraTimes: capture times of each camera's frames, from a separate file."""

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
from headrace.loaders.manifest_rows import is_missing, named_path, read_rows

TimeUnit = Literal["s", "ms", "us", "ns"]

PER_SECOND: Mapping[str, int] = MappingProxyType({"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9})
"""Ticks of each unit per second."""
_LONG_NAMES = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_COLUMN_UNITS: Mapping[str, Any] = MappingProxyType(
    _LONG_NAMES | {f"timestamp_{unit}": unit for unit in PER_SECOND}
)
"""Column of times → its unit. The unit of a column `timestamp` is an argument."""
CLIP_COLUMNS = ("clip", "scene")
_CAMERA_COLUMNS = ("camera", "channel")


def column_named(headers: Iterable[str], names: tuple[str, ...], where: str) -> str:
    """Return the only column with one of the `names`.

    Raises:
        ConfigError: there is none, or more than one.
    """
    columns = [*headers]
    matches = [name for name in names if name in columns]
    if len(matches) != 1:
        raise ConfigError(
            f"{where} must have one column called {' or '.join(names)}; it has "
            f"{', '.join(map(str, columns))[:100] or 'no column'}"
        )
    return matches[0]


def time_column(headers: Iterable[str], unit: TimeUnit | None, where: str) -> tuple[str, TimeUnit]:
    """Return the column of times among `headers`, and its unit.

    Raises:
        ConfigError: there is no column of times, or more than one; or the unit is missing, or
            contradicts the column's name.
    """
    columns = [*headers]
    matches = [name for name in columns if name == "timestamp" or name in _COLUMN_UNITS]
    if len(matches) != 1:
        raise ConfigError(
            f"{where} must have one column of times, called {', '.join(_COLUMN_UNITS)}, or "
            f"timestamp with unit=; it has "
            f"{', '.join(matches) or ', '.join(map(str, columns))[:100]}"
        )
    column = matches[0]
    column_unit: TimeUnit | None = _COLUMN_UNITS.get(column, unit)
    if column_unit is None:
        raise ConfigError(
            f"{where} has times in the column timestamp, without a unit; give unit=, one of "
            f"{', '.join(PER_SECOND)}"
        )
    if unit not in (None, column_unit):
        raise ConfigError(
            f"{where} has times in {column}, which contradicts unit={unit!r}; leave unit out"
        )
    return column, column_unit


def parse_time(value: object, unit: TimeUnit, where: str) -> float:
    """Parse a time; return it in seconds, as the nearest float64.

    Raises:
        ConfigError: the value, described by `where`, is not a finite number.
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


def parse_frame_number(value: Any, where: str) -> int:
    """Parse a frame number.

    Raises:
        ConfigError: the value, of the row `where`, is not an integer >= 0.
    """
    try:
        number = int(float(value))
        if isinstance(value, bool) or number != float(value) or number < 0:
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"frame of {where} must be an integer >= 0, got {value!r}") from error


def name_in(row: Mapping[str, Any], column: str, where: str) -> str:
    """Return the name in a column of a row, without surrounding blanks.

    Raises:
        ConfigError: the value is missing.
    """
    if is_missing(row.get(column)):
        raise ConfigError(f"{where} has no {column}; fill it in, or remove the row")
    return str(row[column]).strip()


_MAX_BYTES = 1 << 28
"""Max bytes of a JSON file."""
_EXAMPLE = '{"clip": {"camera": [0.0, 0.083, ...]}}'

Kind = Literal["camera", "clock"]


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraTimes:
    """Capture times that replace those of the videos: `Alignment(times=CameraTimes.read(path))`.

    A video written at a constant rate loses the capture times of its frames. A separate file has
    them by clip, for each camera and for other clocks. Another clock, such as a lidar's, can be the
    reference.
    """

    seconds: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(repr=False)
    """Clip → camera or clock → float64 [frames], finite, never decreasing."""
    name: str = "the times"
    """Name in messages: the path of the file."""

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, unit: TimeUnit | None = None) -> "CameraTimes":
        """Read the times in a file. Reads all of it; float64 is exact to microseconds since 1970.

        JSON (`.json`): `{clip: {camera: [time of each frame]}}`, in seconds by default.
        CSV, .tsv, JSON lines and Parquet: one row per frame, with the columns clip (or scene),
        camera (or channel) and one of times: seconds, milliseconds, microseconds, nanoseconds,
        timestamp_s, _ms, _us, _ns, or timestamp with `unit`. A column frame holds the frame's
        number, from 0; without it, rows are in the order of frames. Other columns are ignored.

        Args:
            path: Path of the file.
            unit: Unit of the times, `s`, `ms`, `us` or `ns`, if the column's name does not tell it.

        Raises:
            ConfigError: the file cannot be read, or holds invalid times; names clip, camera and
                frame.
            BackendError: the file is Parquet, and pyarrow is not installed.
        """
        _check_unit(unit)
        file = named_path(path, "times")
        if file.suffix.lower() == ".json":
            return cls.of(_read_json(file), name=str(file), unit=unit or "s")
        return cls.of(_read_table(file, unit), name=str(file))

    @classmethod
    def of(
        cls,
        clips: Mapping[str, Mapping[str, Any]],
        name: str = "the times",
        unit: TimeUnit = "s",
    ) -> "CameraTimes":
        """Return the times of a dict: clip → camera or clock → time of each frame.

        Raises:
            ConfigError: a time is not a finite number, times decrease, or the nesting is wrong.
        """
        _check_unit(unit)
        is_nested = isinstance(clips, Mapping) and all(
            isinstance(cameras, Mapping) for cameras in clips.values()
        )
        if not is_nested or not clips:
            raise ConfigError(f"{name} must be like {_EXAMPLE}, got {clips!r:.60}")
        return cls(
            seconds={
                str(clip): {
                    str(camera): _parse_times(times, unit, f"{camera} of clip {clip!r} in {name}")
                    for camera, times in cameras.items()
                }
                for clip, cameras in clips.items()
            },
            name=name,
        )

    def of_frames(self, clip: str, camera: str, count: int) -> NDArray[np.float64]:
        """Return the capture times of a camera's `count` frames: float64 [count], seconds.

        Raises:
            ConfigError: the camera has no times, or their number is not `count`.
        """
        times = self.of_clock(clip, camera, "camera")
        if len(times) != count:
            raise ConfigError(
                f"{self.name} has {len(times)} times for {camera} of clip {clip!r}, which has "
                f"{count} frames; give one time per frame of the video"
            )
        return times

    def of_clock(self, clip: str, clock: str, kind: Kind = "clock") -> NDArray[np.float64]:
        """Return all times of a clock or camera: float64 [times], seconds.

        Raises:
            ConfigError: it has none.
        """
        cameras = self.seconds.get(clip)
        if cameras is None:
            raise ConfigError(
                f"{self.name} has no times of clip {clip!r}; it has {_list_names(self.seconds)}"
            )
        if clock not in cameras:
            raise ConfigError(
                f"{self.name} has no times of the {kind} {clock!r} of clip {clip!r}; it has "
                f"{_list_names(cameras)}"
            )
        return cameras[clock]

    @property
    def clocks(self) -> frozenset[str]:
        """Names of all cameras and clocks that have times in any clip."""
        return frozenset(name for cameras in self.seconds.values() for name in cameras)


def _check_unit(unit: object) -> None:
    if unit not in (*PER_SECOND, None):
        raise ConfigError(f"unit must be one of {', '.join(PER_SECOND)}, got {unit!r}")


def _parse_times(times: Any, unit: TimeUnit, where: str) -> NDArray[np.float64]:
    if isinstance(times, np.ndarray):
        times = times.tolist()
    if not isinstance(times, list | tuple) or not times:
        raise ConfigError(f"the times of {where} must be a non-empty list of numbers")
    seconds = np.array([parse_time(time, unit, f"a time of {where}") for time in times])
    decreases = np.flatnonzero(np.diff(seconds) < 0)
    if len(decreases):
        frame = int(decreases[0]) + 1
        raise ConfigError(
            f"the times of {where} decrease at frame {frame}, from {seconds[frame - 1]!s} to "
            f"{seconds[frame]!s} s; frames must be in the order of their capture"
        )
    seconds.flags.writeable = False
    return seconds


def _read_json(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
        if len(text) > _MAX_BYTES:
            raise ConfigError(
                f"{path} is larger than {_MAX_BYTES >> 20} MiB; write the times as Parquet"
            )
        return json.loads(text)
    except OSError as error:
        reason = reason_of(error)
        raise ConfigError(f"cannot read the times {path}: {reason}; give a file") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not JSON: {str(error)[:100]}; it must be like {_EXAMPLE}"
        ) from error


def _read_table(path: Path, unit: TimeUnit | None) -> dict[str, dict[str, list[float]]]:
    """Return clip → camera → seconds in the order of frames."""
    rows, places = read_rows(path, "table of times")
    if not rows:
        raise ConfigError(f"{path} has no rows; give one for each frame")
    headers = list(dict.fromkeys(header for row in rows for header in row))
    clip_column = column_named(headers, CLIP_COLUMNS, str(path))
    camera_column = column_named(headers, _CAMERA_COLUMNS, str(path))
    column, column_unit = time_column(headers, unit, str(path))
    times: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for number, row in enumerate(rows):
        where = places.where(number)
        seconds = parse_time(row.get(column), column_unit, f"{column} of {where}")
        cameras = times.setdefault(name_in(row, clip_column, where), {})
        frames = cameras.setdefault(name_in(row, camera_column, where), [])
        is_counted = "frame" in headers
        frame = parse_frame_number(row.get("frame"), where) if is_counted else len(frames)
        frames.append((frame, seconds))
    return {
        clip: {
            camera: _sort_frames(frames, f"{camera} of clip {clip!r} in {path}")
            for camera, frames in cameras.items()
        }
        for clip, cameras in times.items()
    }


def _sort_frames(frames: list[tuple[int, float]], where: str) -> list[float]:
    """Return the times of (frame, time) in the order of frames, which must be 0, 1, 2, ..."""
    frames.sort(key=lambda pair: pair[0])
    for number, (frame, _) in enumerate(frames):
        if frame != number:
            problem = f"frame {frame} twice" if frame < number else f"no frame {number}"
            raise ConfigError(f"{where} has {problem}; give each frame, from 0, one time")
    return [seconds for _, seconds in frames]


def _list_names(names: Mapping[str, object]) -> str:
    shown = sorted(names)[:6]
    return ", ".join(shown) + (f" and {len(names) - 6} more" if len(names) > 6 else "") or "none"
