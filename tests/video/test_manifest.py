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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.txt", "a.mp4\n\n  deep/b.mp4\n/elsewhere/c.mp4\n"),
        ("list.csv", "label,path\n1,a.mp4\n2,deep/b.mp4\n3,/elsewhere/c.mp4\n"),
        ("LIST.CSV", "\ufeffvideo\na.mp4\ndeep/b.mp4\n/elsewhere/c.mp4\n"),
        ("list.csv", "a.mp4,1\ndeep/b.mp4,2\n/elsewhere/c.mp4,3\n"),
        ("list.txt", "a.mp4 1\ndeep/b.mp4\tlong jump 7\n/elsewhere/c.mp4  2\n"),
        ("list.tsv", "file\tlabel\na.mp4\t1\ndeep/b.mp4\t2\n/elsewhere/c.mp4\t3\n"),
        ("list.jsonl", '{"path": "a.mp4"}\n"deep/b.mp4"\n\n{"path": "/elsewhere/c.mp4"}\n'),
    ],
)
def test_a_list_names_videos_from_where_it_lies(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = find_videos([tmp_path / name])
    assert [str(each) for each in found] == [
        str(tmp_path / "a.mp4"),
        str(tmp_path / "deep/b.mp4"),
        "/elsewhere/c.mp4",
    ]


def test_a_path_may_hold_blanks_with_and_without_a_label(tmp_path):
    (tmp_path / "list.txt").write_text("my video.mp4\nmy video.mp4 3\na.mp4 b.mp4\nno suffix\n")
    found = find_videos([tmp_path / "list.txt"])
    names = [str(each.relative_to(tmp_path)) for each in found]
    assert names == ["my video.mp4", "my video.mp4", "a.mp4 b.mp4", "no suffix"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("list.txt", b"\n", "lists no video"),
        (
            "list.csv",
            b"name,label\na.mp4,1\n",
            "one column of paths, called .*; it has name",
        ),
        ("list.csv", b"label,path\n1,a.mp4\n2,\n", "line 3 of .* names no video"),
        ("list.jsonl", b"{a}\n", "line 1 of .* is no JSON"),
        ("list.jsonl", b'{"n": 1}\n', "one column of paths"),
        ("list.txt", b"\xff\xfe\x00", "no text in UTF-8"),
        ("list.csv", b"x" * 200_000, "line 1 of .* is no CSV: field larger"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        find_videos([tmp_path / name])


def test_a_list_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*gone\.csv"):
        find_videos([tmp_path / "gone.csv"])


def test_hidden_files_and_folders_named_like_videos_are_none(tmp_path):
    (tmp_path / "folder.mp4").mkdir()
    for name in ("a.mp4", "._a.mp4", ".b.mkv", "raw.h265", "folder.mp4/c.mov"):
        (tmp_path / name).touch()
    expected = ["a.mp4", "folder.mp4/c.mov", "raw.h265"]
    assert find_videos([tmp_path]) == [tmp_path / name for name in expected]


def test_proxies_beside_their_originals_are_no_further_videos_unless_they_are_named(tmp_path):
    for name in ("a.mp4", "proxies/videos/a.mp4", "proxies/.extraction/chunks/0.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    proxy = tmp_path / "proxies" / "videos" / "a.mp4"
    assert find_videos([tmp_path]) == [tmp_path / "a.mp4"]
    assert find_videos([tmp_path / "proxies"]) == [proxy]
    assert find_videos([tmp_path / "proxies" / "videos"]) == [proxy]
