"""What a small set in nuScenes' form holds, as a value: scenes, and when each frame was taken."""

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
"""In the order in which the lidar passes over them."""
LIDAR = "LIDAR_TOP"

_FIRST_US = 1_532_402_927_000_000
_SCENE_US = 60_000_000
_CAMERA_PERIOD_US = Fraction(10**6, 12)
_LIDAR_PERIOD_US = 50_000
_SWEEPS_OF_A_SAMPLE = 10
_METRES_PER_SECOND = 5.0
_TURN_US = 6_000
"""What the lidar takes from one camera to the next, which sets them off."""


@dataclass(frozen=True, kw_only=True)
class NuScenesSet:
    """What a set holds: cameras at 12 Hz, the lidar at 20 Hz, and key frames (samples) at 2 Hz.

    Cameras begin one after the other, 6 ms apart, and their times jitter, as they do where a
    lidar that turns sets them off. Pixels carry the number of the frame among those that its camera
    has of the scene, from 0 on (`headrace.testing.synth.read_number`).
    """

    durations_seconds: tuple[float, ...] = (2.0, 3.0, 1.5)
    """Of each scene, called `scene-0001` and on."""
    cameras: tuple[str, ...] = CAMERAS
    size: tuple[int, int] = (96, 128)
    """(height, width) of all pictures."""
    form: Literal["pictures", "videos"] = "pictures"
    """JPEGs, in `samples/` and `sweeps/` as nuScenes has them; or `videos/<scene>/<camera>.mp4`, at
    a constant 12 frames/s that hides their times, and `index_frame.json`."""
    jitter_ms: float = 3.0
    """How far a time may be from its place, either way."""
    lost: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Camera → frames that it did not take, in every scene, by their number at an even 12 Hz."""
    drive: Literal["straight", "rocking"] = "straight"
    """Straight on, at 5 m/s; or to and fro within a metre, by chance, in pictures that carry no
    number and are as bright as the car is far: what one shows does not tell what came before it."""
    version: str = "v1.0-mini"
    """The folder of the tables."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.durations_seconds or min(self.durations_seconds) < 0.5:
            raise ConfigError("a scene lasts at least 0.5 s, which a key frame takes")
        if self.drive == "rocking" and self.form != "pictures":
            raise ConfigError("a car that is rocking is shown by pictures; leave out form")

    @property
    def scenes(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(f"scene-{number + 1:04d}" for number in range(len(self.durations_seconds)))

    def camera_times_us(self, scene: int, camera: str) -> list[int]:
        """Return when a camera's frames were taken: microseconds since 1970, ascending."""
        place, chance = self.cameras.index(camera), Random(f"{self.seed} {scene} {camera}")
        count = int(self.durations_seconds[scene] * 12)
        jitter = round(self.jitter_ms * 1000)
        first = _FIRST_US + scene * _SCENE_US + place * _TURN_US
        times = [
            first + round(number * _CAMERA_PERIOD_US) + chance.randint(-jitter, jitter)
            for number in range(count)
        ]
        lost = self.lost.get(camera, ())
        return [each for number, each in enumerate(times) if number not in lost]

    def metres(self, scene: int, time_us: int) -> float:
        """Return how far along its way the car is at a time."""
        if self.drive == "straight":
            return _METRES_PER_SECOND * (time_us - self.sample_times_us(scene)[0]) / 1e6
        place = float((time_us - _FIRST_US - scene * _SCENE_US) / _CAMERA_PERIOD_US)
        before = math.floor(place)
        here, there = (
            Random(f"{self.seed} {scene} {knot}").random() for knot in (before, before + 1)
        )
        return here + (there - here) * (place - before)

    def lidar_times_us(self, scene: int) -> list[int]:
        """Return when the lidar's sweeps were done: microseconds since 1970, ascending."""
        chance = Random(f"{self.seed} {scene} {LIDAR}")
        first = _FIRST_US + scene * _SCENE_US
        return [
            first + number * _LIDAR_PERIOD_US + chance.randint(-1000, 1000)
            for number in range(int(self.durations_seconds[scene] * 20))
        ]

    def sample_times_us(self, scene: int) -> list[int]:
        """Return the times of key frames: those of every tenth sweep of the lidar."""
        return self.lidar_times_us(scene)[::_SWEEPS_OF_A_SAMPLE]
