"""Datasets written by lerobot's writer."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tqdm

from benchmarks.lerobot_writer import created

tqdm.tqdm.monitor_interval = 0  # starts no monitor thread


class Kind(NamedTuple):
    """Kind of a dataset."""

    cameras: int
    episodes: int
    codec: str
    gop: int
    sizes: tuple[tuple[int, int], ...] = ((48, 64),)
    """(height, width) of each camera; the last also applies to all further cameras."""
    has_depths: bool = False
    """Whether there is also a depth camera."""

    def size(self, camera: int) -> tuple[int, int]:
        """Return the (height, width) of a camera."""
        return self.sizes[min(camera, len(self.sizes) - 1)]

    def length(self, episode: int) -> int:
        """Return the frames of an episode: 4 to 14, in every tenth episode 40, more than a GOP."""
        return 40 if episode % 10 == 3 else 4 + episode * 7 % 11


KINDS = {
    "AV1, g=2": Kind(2, 50, "libsvtav1", 2),
    "H.264, g=2, 3 cameras": Kind(3, 60, "h264", 2),
    "H.264, g=30": Kind(2, 60, "h264", 30),
    "H.264, two sizes": Kind(2, 50, "h264", 8, sizes=((48, 64), (120, 90))),
}
if find_spec("lerobot.datasets.depth_utils"):  # from lerobot 0.6 on
    KINDS["H.264 and depths"] = Kind(1, 50, "h264", 8, has_depths=True)
DEPTH = "observation.images.camera1"
FPS = 30


def write(folder: Path, kind: Kind, *, seed: int = 0) -> Path:
    """Write a dataset of moving stripes and squares with lerobot's writer; return its folder."""
    cameras = [f"observation.images.camera{number}" for number in range(kind.cameras)]
    axes = ["height", "width", "channels"]
    features: dict[str, dict[str, Any]] = {
        **{
            name: {"dtype": "video", "shape": (*kind.size(camera), 3), "names": axes}
            for camera, name in enumerate(cameras)
        },
        "observation.state": {"dtype": "float32", "shape": (6,), "names": [*"abcdef"]},
        "action": {"dtype": "float32", "shape": (6,), "names": [*"abcdef"]},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
        "lidar": {"dtype": "float64", "shape": (2, 3), "names": None},
    }
    if kind.has_depths:
        info = {"is_depth_map": True}
        features[DEPTH] = {"dtype": "video", "shape": (60, 80, 1), "names": axes, "info": info}
    draws = np.random.default_rng(seed)
    with created(folder, FPS, features, kind.codec, kind.gop) as dataset:
        for episode in range(kind.episodes):
            for number in range(kind.length(episode)):
                values = draws.normal(size=(3, 6))
                frame = {
                    **{
                        name: picture(kind, episode, number, camera)
                        for camera, name in enumerate(cameras)
                    },
                    "observation.state": values[0].astype(np.float32),
                    "action": values[1].astype(np.float32),
                    "next.reward": np.array([number / 7], np.float32),
                    "next.done": np.array([number % 5 == 0]),
                    "lidar": values[2].reshape(2, 3),
                    "task": f"task {episode % 3}",
                }
                if kind.has_depths:
                    frame[DEPTH] = depths(episode, number)
                dataset.add_frame(frame)
            dataset.save_episode(parallel_encoding=False)  # forks no process per camera
    return folder


def picture(kind: Kind, episode: int, number: int, camera: int) -> np.ndarray:
    """Return a unique frame, uint8 [H, W, 3]."""
    height, width = kind.size(camera)
    rows, columns = np.mgrid[:height, :width]
    stripes = ((columns * (camera + 1) + rows * 2 + number * 7 + episode * 31) % 256).astype(
        np.uint8
    )
    image = np.stack([stripes, np.roll(stripes, number * 3, 1), 255 - stripes], -1)
    top, left = (number * 5) % (height - 20), (number * 3) % (width - 20)
    image[top : top + 20, left : left + 20] = [episode * 7 % 256, number, camera * 80]
    return image


def depths(episode: int, number: int) -> np.ndarray:
    """Return a unique frame of depths in millimeters, uint16 [60, 80, 1]."""
    rows, columns = np.mgrid[:60, :80]
    millimeters = 20 + rows * 60 + columns * 40 + episode * 30 + number * 11
    return millimeters.astype(np.uint16)[..., None]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from the name of a kind to its folder, written on the first call."""
    folders: dict[str, Path] = {}

    def folder_of(name: str) -> Path:
        if name not in folders:
            folders[name] = write(tmp_path_factory.mktemp("lerobot") / "set", KINDS[name])
        return folders[name]

    return folder_of
