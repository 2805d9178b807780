"""The index file of clips of several cameras, read, written, and what is wrong with it."""

import json

import pytest

from headrace.errors import ConfigError
from headrace.video.camera_layout import CameraLayout


@pytest.fixture
def folder(tmp_path):
    """Two clips of three cameras; files are empty, nothing here opens them."""
    for clip in ("night", "day"):
        (tmp_path / "videos" / clip).mkdir(parents=True)
        for camera in ("right", "front", "left"):
            (tmp_path / "videos" / clip / f"{camera}.mp4").touch()
        (tmp_path / "videos" / clip / "notes.txt").touch()
    (tmp_path / "videos" / "empty").mkdir()
    return tmp_path


def index_of(folder, content) -> str:
    path = folder / "index.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_folders_become_an_index_file_and_back(folder):
    found = CameraLayout.of_folders([folder / "videos"], lambda file: len(file.parent.name))
    assert found.cameras == ("front", "left", "right")
    text = found.to_json(folder)
    assert json.loads(text) == {"videos": {"day": 3, "night": 5}}
    read = CameraLayout.read(index_of(folder, text))
    assert [(clip.folder, clip.num_frames) for clip in read.clips] == [
        (folder / "videos" / "day", 3),
        (folder / "videos" / "night", 5),
    ]
    assert read.cameras == found.cameras


def test_cameras_come_by_name_or_as_asked_for(folder):
    path = index_of(folder, {str(folder / "videos"): {"night": 5}})
    assert CameraLayout.read(path).cameras == ("front", "left", "right")
    read = CameraLayout.read(path, ["right", "front"])
    assert read.cameras == ("right", "front")
    assert read.clips[0].file("right") == folder / "videos" / "night" / "right.mp4"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("no JSON", "is no camera index"),
        ([], "is no camera index"),
        ({"videos": {"day": "3"}}, "videos -> day"),
        ({"videos": {"day": 0}}, "videos -> day"),
        ({"videos": 3}, "is no camera index"),
        ({}, "lists no clip"),
        ({"videos": {"../day": 3}}, "no folder inside its video_dir"),
        ({"videos": {"/etc": 3}}, "no folder inside its video_dir"),
        ({"videos": {"empty": 3}}, "no camera was found"),
    ],
)
def test_what_is_no_index_is_refused(folder, content, said):
    with pytest.raises(ConfigError, match=said):
        CameraLayout.read(index_of(folder, content))


def test_what_is_not_there_is_named(folder):
    with pytest.raises(ConfigError, match=r"cannot read .*gone\.json"):
        CameraLayout.read(folder / "gone.json")
    with pytest.raises(ConfigError, match=r"cannot read folder .*gone"):
        CameraLayout.of_folders([folder / "gone"], len)
    with pytest.raises(ConfigError, match="no clip was found"):
        CameraLayout.of_folders([folder / "videos" / "day"], len)
    with pytest.raises(ConfigError, match="different names, at least one"):
        CameraLayout.of_folders([folder / "videos"], len, ["a", "a"])
