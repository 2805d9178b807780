"""Cameras whose frames lie as pictures in folders."""

import numpy as np
import pytest
from PIL import Image

import headrace
from headrace.errors import ConfigError
from headrace.video.camera_layout import CameraLayout

LENGTHS = {"day": 6, "night": 4}
CAMERAS = ("front", "left")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def picture(clip: str, camera: str, number: int) -> np.ndarray:
    seed = [list(LENGTHS).index(clip), CAMERAS.index(camera), number]
    return np.random.default_rng(seed).integers(0, 256, (24, 32, 3), np.uint8)


@pytest.fixture
def folder(tmp_path):
    for clip, length in LENGTHS.items():
        for camera in CAMERAS:
            (tmp_path / clip / camera).mkdir(parents=True)
            for number in range(length):
                path = tmp_path / clip / camera / f"{number:04d}.png"
                Image.fromarray(picture(clip, camera, number)).save(path)
    return tmp_path


def test_cameras_of_pictures_stream_as_videos_do(folder):
    layout = CameraLayout.of_folders([folder], len, picture_rate=2)
    assert layout.cameras == CAMERAS
    shown = 0
    with headrace.CameraLoader(layout, group_num=2, workers=2) as loader:
        for batch in loader:
            for slot in np.flatnonzero(batch.valid.all(1).numpy()).tolist():
                clip, number = layout.clips[int(batch.clip[slot])].name, int(batch.index[slot])
                for place, camera in enumerate(CAMERAS):
                    found = batch.frames[slot, place].movedim(0, -1).numpy()
                    assert np.array_equal(found, picture(clip, camera, number))
                shown += 1
    assert shown == sum(LENGTHS.values())


def test_windows_of_pictures_hold_them(folder):
    layout = CameraLayout.of_folders([folder], len, picture_rate=2)
    keys = set()
    with headrace.CameraWindowLoader(layout, num_moments=2, batch_size=3) as loader:
        for batch in loader:
            for window, at, place in np.ndindex(batch.frame.shape):
                clip, number = batch.clip_name[window], int(batch.index[window, at])
                found = batch.frames[window, at, place].movedim(0, -1).numpy()
                assert np.array_equal(found, picture(clip, CAMERAS[place], number))
                keys.add((clip, int(batch.index[window, -1])))
    assert keys == {(clip, each) for clip, length in LENGTHS.items() for each in range(length)}


def test_an_index_file_is_read_with_the_rate(folder):
    found = CameraLayout.of_folders([folder], len, picture_rate="5/2")
    found.write(folder / "index.json")
    assert CameraLayout.read(folder / "index.json", picture_rate="5/2") == found


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (0, "rate must be above 0"),
        ("fast", "rate must be a finite number"),
        (None, r"a folder of <camera>\.mp4 files"),
    ],
)
def test_a_rate_that_is_none_is_refused(folder, rate, message):
    with pytest.raises(ConfigError, match=message):
        CameraLayout.of_folders([folder], len, picture_rate=rate)
