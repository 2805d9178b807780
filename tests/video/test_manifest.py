"""Files and folders as the user names them."""

import pytest

from headrace.errors import ConfigError
from headrace.video.manifest import find_videos


def test_files_stay_as_given_and_folders_give_their_videos_sorted(tmp_path):
    for name in ("b.MP4", "a.mov", "notes.txt", "deep/c.mkv"):
        path = tmp_path / "folder" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"x")
    found = find_videos([tmp_path / "no-suffix", tmp_path / "folder"])
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        *("no-suffix", "folder/a.mov", "folder/b.MP4", "folder/deep/c.mkv")
    ]


def test_a_folder_without_videos_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ConfigError, match="holds no file that is named like a video"):
        find_videos([tmp_path])


def test_ten_thousand_links_are_found(tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"x")
    for k in range(10_000):
        (tmp_path / f"{k:05}.mp4").symlink_to("a.mp4")
    assert len(find_videos([tmp_path])) == 10_001
