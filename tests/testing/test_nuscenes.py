"""A synthetic set has nuScenes' format, and pixels that identify the frame."""

import json

import numpy as np
import pytest
from PIL import Image

from headrace.decode.open_decoder import open_index
from headrace.testing.nuscenes import CAMERAS, LIDAR, NuScenesSet, write_nuscenes
from headrace.testing.synth import read_number

MADE = NuScenesSet(durations_seconds=(1.0, 0.5), size=(64, 96), lost={"CAM_BACK": (3, 4)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_nuscenes(tmp_path_factory.mktemp("made") / "set", MADE)


def rows(folder, name):
    return json.loads((folder / "v1.0-mini" / f"{name}.json").read_text())


def test_every_token_refers_to_a_row(folder):
    names = [path.stem for path in (folder / "v1.0-mini").glob("*.json")]
    assert len(names) == 13
    tokens = {name: {row["token"] for row in rows(folder, name)} for name in names}
    followed = 0
    for name in names:
        for row in rows(folder, name):
            for field, token in row.items():
                target = field.removesuffix("_token")
                if target in tokens and target != field and token:
                    assert token in tokens[target], (name, field)
                    followed += 1
            for side in ("prev", "next"):
                assert row.get(side, "") in tokens[name] | {""}
    assert followed > 100


def test_samples_at_2_hz_have_a_key_frame_of_every_sensor(folder):
    assert len(rows(folder, "sample")) == 2 + 1
    keys = [row for row in rows(folder, "sample_data") if row["is_key_frame"]]
    found = {(row["sample_token"], row["filename"].split("/")[1]) for row in keys}
    assert len(found) == len(keys) == 3 * (len(CAMERAS) + 1)


def test_pixels_carry_the_frame_index_of_the_camera(folder):
    times = MADE.camera_times_us(0, "CAM_BACK")
    assert len(times) == 10
    data = [row for row in rows(folder, "sample_data") if "-0001__CAM_BACK__" in row["filename"]]
    assert sorted(row["timestamp"] for row in data) == times
    for row in data:
        picture = np.asarray(Image.open(folder / row["filename"]))
        assert picture.shape == (64, 96, 3)
        assert read_number(picture) == times.index(row["timestamp"])


def test_times_jitter_and_follow_from_the_seed():
    times = MADE.camera_times_us(0, "CAM_FRONT")
    assert times == MADE.camera_times_us(0, "CAM_FRONT")
    assert times != NuScenesSet(seed=1).camera_times_us(0, "CAM_FRONT")[:12]
    assert len(set(np.diff(times))) > 1
    assert len(MADE.lidar_times_us(0)) == 20


def test_videos_have_a_constant_rate(tmp_path):
    made = NuScenesSet(durations_seconds=(0.5,), form="videos", cameras=CAMERAS[:2], size=(64, 96))
    folder = write_nuscenes(tmp_path / "set", made)
    index = open_index(folder / "videos" / "scene-0001" / "CAM_FRONT.mp4")
    assert len(index) == len(made.camera_times_us(0, "CAM_FRONT")) == 6
    assert index.frame_rate == 12
    assert json.loads((folder / "index_frame.json").read_text()) == {"videos": {"scene-0001": 6}}
    assert LIDAR in {row["channel"] for row in rows(folder, "sensor")}


def test_a_rocking_cars_position_is_the_brightness(tmp_path):
    made = NuScenesSet(durations_seconds=(2.0,), cameras=CAMERAS[:2], drive="rocking")
    folder = write_nuscenes(tmp_path / "set", made)
    poses = {row["token"]: row["translation"][0] for row in rows(folder, "ego_pose")}
    data = [row for row in rows(folder, "sample_data") if row["width"]]
    metres = np.array([poses[row["ego_pose_token"]] for row in data])
    levels = [np.asarray(Image.open(folder / row["filename"])).mean() for row in data]
    np.testing.assert_allclose(30 + 195 * metres, levels, atol=2)
    front = metres[[row["filename"].split("/")[1] == "CAM_FRONT" for row in data]]
    assert np.ptp(front) > 0.5
    assert np.abs(np.diff(front)).mean() > 0.15
