"""Description of a small set in nuScenes' format: scenes and frame times."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Literal

from headrace.errors import ConfigError

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
