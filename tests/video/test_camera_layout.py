"""The index file of clips of several cameras: reading, writing and errors."""

import json

import pytest

from headrace import CameraLayout, ConfigError, OpenError


@pytest.fixture
def folder(tmp_path):
    """Two clips of three cameras; the files are empty and never opened."""
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


def test_folders_survive_the_index_file(folder):
    found = CameraLayout.of_folders([folder / "videos"], lambda file: len(file.parent.name))
    assert found.cameras == ("front", "left", "right")
    found.write(folder / "index.json")
    text = (folder / "index.json").read_text()
    assert text == found.to_json(folder)
    assert json.loads(text) == {"videos": {"day": 3, "night": 5}}
    read = CameraLayout.read(folder / "index.json")
    clips = [(clip.folder, clip.num_frames) for clip in read.clips]
    assert clips == [(folder / "videos" / "day", 3), (folder / "videos" / "night", 5)]
    assert read.cameras == found.cameras


def test_a_layout_is_printed_as_its_counts(folder):
    layout = CameraLayout.of_folders([folder / "videos"], lambda _: 5)
    assert str(layout) == "clips: 2, moments: 10, cameras: front, left, right"


def test_cameras_are_sorted_or_as_requested(folder):
    path = index_of(folder, {str(folder / "videos"): {"night": 5}})
    assert CameraLayout.read(path).cameras == ("front", "left", "right")
    read = CameraLayout.read(path, ["right", "front"])
    assert read.cameras == ("right", "front")
    assert read.clips[0].file("right") == folder / "videos" / "night" / "right.mp4"


def count_of_whole(*bad):
    """Return a function that counts 7, 8, 9 frames of front, left, right and fails for `bad`."""

    def count(file):
        if f"{file.parent.name}/{file.stem}" in bad or not file.exists():
            raise OpenError(f"cannot open {file}", source=str(file))
        return 7 + ("front", "left", "right").index(file.stem)

    return count


@pytest.mark.parametrize(
    ("counted", "frames"), [(None, {"day": 8, "night": 9}), ("front", {"day": 7, "night": 9})]
)
def test_a_clip_has_the_frames_of_its_longest_or_counted_camera(folder, counted, frames):
    (folder / "videos" / "night" / "front.mp4").unlink()
    count = count_of_whole("day/right")
    found = CameraLayout.of_folders([folder / "videos"], count, counted=counted)
    assert {clip.name: clip.num_frames for clip in found.clips} == frames
    assert found.left_out == ()


def test_cameras_may_be_videos_of_any_kind(folder):
    night = folder / "videos" / "night"
    (night / "left.mp4").rename(night / "left.mkv")
    (night / "rear.MOV").touch()
    (night / "._front.mp4").touch()  # hidden files are not cameras
    found = CameraLayout.of_folders([folder / "videos"], lambda file: 5)
    assert found.cameras == ("front", "left", "rear", "right")
    day, dark = found.clips
    names = [dark.file(camera).name for camera in found.cameras]
    assert names == ["front.mp4", "left.mkv", "rear.MOV", "right.mp4"]
    assert (day.file("left").name, day.file("rear").name) == ("left.mp4", "rear.mp4")


def test_two_files_of_one_camera_are_refused_by_name(folder):
    (folder / "videos" / "night" / "left.mkv").touch()
    message = r"night/left\.mkv and .*/night/left\.mp4 are both of camera left; move"
    with pytest.raises(ConfigError, match=message):
        CameraLayout.of_folders([folder / "videos"], lambda file: 5)
    path = index_of(folder, {"videos": {"night": 5}})
    with pytest.raises(ConfigError, match="both of camera left"):
        CameraLayout.read(path)
    assert CameraLayout.read(path, ["front"]).cameras == ("front",)


def test_unreadable_clips_are_left_out(folder):
    bad = [f"day/{camera}" for camera in ("front", "left", "right")]
    found = CameraLayout.of_folders([folder / "videos"], count_of_whole(*bad))
    assert [clip.name for clip in found.left_out] == ["day"]
    found.write(folder / "index.json")
    assert json.loads((folder / "index.json").read_text()) == {"videos": {"night": 9}}


def test_unreadable_files_are_all_named_if_none_can_be_read(folder):
    bad = [f"{clip}/{each}" for clip in ("day", "night") for each in ("front", "left", "right")]
    with pytest.raises(ConfigError, match="no camera of 2 clips can be read") as caught:
        CameraLayout.of_folders([folder / "videos"], count_of_whole(*bad))
    assert all(f"{each}.mp4" in str(caught.value) for each in bad)


def test_an_index_in_a_linked_folder_is_read(folder):
    (folder / "far" / "away").mkdir(parents=True)
    (folder / "link").symlink_to(folder / "far" / "away")
    found = CameraLayout.of_folders([folder / "videos"], lambda _: 5)
    found.write(folder / "link" / "index.json")
    assert CameraLayout.read(folder / "link" / "index.json").cameras == found.cameras


def test_a_failed_write_keeps_the_index_file(folder, monkeypatch):
    found = CameraLayout.of_folders([folder / "videos"], lambda file: 5)
    path = folder / "index.json"
    found.write(path)
    before = path.read_text()

    def cut_off(self, content):
        with self.open("wb") as file:
            file.write(content[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "write_bytes", cut_off)
    with pytest.raises(ConfigError, match=r"cannot write .*index.json: no space left"):
        CameraLayout.of_folders([folder / "videos"], lambda file: 7).write(path)
    assert path.read_text() == before
    assert sorted(each.name for each in folder.iterdir()) == ["index.json", "videos"]
