"""What pictures are called."""

from fractions import Fraction
from pathlib import Path

import pytest

from headrace.extraction.names import picture_name, video_names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/data/a.mp4", "/data/b.mp4"], ["a", "b"]),
        (["/data/x/a.mp4", "/data/y/a.mp4", "/data/b.mp4"], ["x_a", "y_a", "b"]),
        (["/data/x/1/a.mp4", "/data/y/1/a.mp4"], ["x_1_a", "y_1_a"]),
        (["/data/a.mp4", "/data/a.mkv"], ["data_a", "data_a-2"]),
        (["/x/a.mp4", "/y/a.mp4", "/y/x_a.mp4"], ["x_a", "y_a", "y_x_a"]),
    ],
)
def test_videos_of_one_stem_are_told_apart(paths, names):
    assert video_names([Path(path) for path in paths]) == names


def test_a_long_name_is_cut_and_still_tells_videos_apart():
    paths = [Path("/data") / f"{'é' * 100}{number}.mp4" for number in (1, 2)]
    names = video_names(paths)
    assert len(set(names)) == 2
    assert all(len(name.encode()) <= 130 for name in names)


def test_a_picture_is_named_by_index_and_time_and_sorts_in_order():
    names = [picture_name("shot_", "a", n, Fraction(n, 25), 1_000_000, "png") for n in (7, 100)]
    assert names == ["shot_a_000007_0.280s.png", "shot_a_000100_4.000s.png"]
    assert names == sorted(names)


def test_names_of_a_very_long_video_have_digits_enough():
    assert picture_name("", "a", 7, Fraction(0), 10_000_001, "jpg") == "a_00000007_0.000s.jpg"
