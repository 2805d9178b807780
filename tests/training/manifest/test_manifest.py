"""What a manifest says, and what is refused."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Manifest
from headrace.errors import ConfigError

ROWS = [
    {"path": "a.mp4", "label": "cats", "start_seconds": 0.1, "end_seconds": "2.5", "weight": 3},
    {"path": "b.mp4", "label": "dogs", "weight": 1, "note": "a note"},
    {"path": "a.mp4", "label": "dogs", "end_seconds": 2, "weight": "0.5", "people": 4},
]


def test_rows_name_videos_segments_classes_and_what_else_is_known():
    manifest = Manifest.of_rows(ROWS, folder="clips")
    assert len(manifest) == 3
    assert manifest.videos == (Path("clips/a.mp4"), Path("clips/b.mp4"))
    assert manifest.video.tolist() == [0, 1, 0]
    tenth, half = Fraction(1, 10), Fraction(5, 2)
    assert manifest.segments == ((tenth, half), (Fraction(0), None), (Fraction(0), Fraction(2)))
    assert manifest.classes == {"label": ("cats", "dogs")}
    assert manifest.weights == (3.0, 1.0, 0.5)
    assert manifest.columns["label"].tolist() == ["cats", "dogs", "dogs"]
    assert manifest.columns["note"].tolist() == ["", "a note", ""]
    people = manifest.columns["people"]
    assert people.dtype == np.float64
    assert people.tolist()[2] == 4
    assert np.isnan(people[:2]).all()
    assert manifest.values(np.array([2, 0]))["label"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (["3", "-1", "0"], np.int64, [3, -1, 0]),
        ([3, True], np.int64, [3, 1]),
        (["3", "1.5", ".5", "1e-3"], np.float64, [3, 1.5, 0.5, 1e-3]),
        (["03", "7"], np.float64, [3, 7]),
        (["3", "x"], object, ["3", "x"]),
        (["nan", "inf"], object, ["nan", "inf"]),
        ([10**30, 1], np.float64, [1e30, 1]),
        ([None, ""], object, ["", ""]),
    ],
    ids=str,
)
def test_a_column_is_of_integers_numbers_or_text(values, dtype, expected):
    rows = [{"path": "a.mp4", "mine": each} for each in values]
    column = Manifest.of_rows(rows).columns["mine"]
    assert column.dtype == dtype
    assert column.tolist() == expected


def test_whole_numbers_are_labels_as_they_are():
    manifest = Manifest.of_rows([{"path": "a.mp4", "label": "7"}, {"path": "b.mp4", "label": "2"}])
    assert manifest.classes == {}
    assert manifest.values(np.array([0, 1]))["label"].tolist() == [7, 2]


def test_two_manifests_may_have_the_same_classes():
    train = Manifest.of_rows(ROWS)
    rows = [{"path": "c.mp4", "label": "dogs"}]
    assert Manifest.of_rows(rows).values(np.array([0]))["label"].tolist() == [0]
    held_out = Manifest.of_rows(rows, classes=train.classes)
    assert held_out.classes == train.classes
    assert held_out.values(np.array([0]))["label"].tolist() == [1]
    with pytest.raises(ConfigError, match=r"'cows', which is none of the 2 classes .* cats, dogs"):
        Manifest.of_rows([{"path": "c.mp4", "label": "cows"}], classes=train.classes)


def test_balanced_weights_give_each_class_the_same():
    manifest = Manifest.of_rows(ROWS)
    assert manifest.balanced() == (1.0, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert manifest.balanced("weight") == (1.0, 1.0, 1.0)
    with pytest.raises(ConfigError, match="no column 'kind'; it has label, weight, note, people"):
        manifest.balanced("kind")
    idle = Manifest.of_rows([{"path": "a.mp4", "label": "x", "weight": 0}])
    with pytest.raises(ConfigError, match="all rows of label 'x' have weight 0"):
        idle.balanced()


def test_a_subset_keeps_classes_and_forgets_other_videos():
    manifest = Manifest.of_rows(ROWS)
    some = manifest.subset(manifest.columns["label"] == "dogs")
    assert some.videos == (Path("a.mp4"), Path("b.mp4"))
    assert some.video.tolist() == [1, 0]
    assert some.classes == manifest.classes
    assert some.values(np.array([0, 1]))["label"].tolist() == [1, 1]
    assert some.weights == (1.0, 0.5)
    again = manifest.subset([1, 1])
    assert again.videos == (Path("b.mp4"),)
    assert again.segments == (manifest.segments[1],) * 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "rows must be places .* float64"),
        (np.zeros(3, bool), "no row of the manifest was chosen"),
        ([True], "rows must be places in a manifest of 3 rows, or a bool for each, got bool"),
        ([0.5], "rows must be places"),
        ("cats", "rows must be places"),
        ([0, 3], "row 3 was asked for, the manifest has 3"),
        ([-1], "row -1 was asked for"),
    ],
)
def test_a_subset_of_nothing_there_is_is_refused(rows, message):
    with pytest.raises(ConfigError, match=message):
        Manifest.of_rows(ROWS).subset(rows)


@given(
    rows=st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["", "p", "q", "r"])),
        min_size=2,
        max_size=20,
    ),
    share=st.sampled_from([0.1, 0.5, "0.8"]),
    seed=st.integers(0, 3),
)
def test_a_split_shares_no_video_and_no_group_and_loses_no_row(rows, share, seed):
    table = [{"path": v, "group": g, "mine": n} for n, (v, g) in enumerate(rows)]
    manifest = Manifest.of_rows(table)
    try:
        parts = manifest.split(share, seed=seed)
    except ConfigError:
        linked = {rows[0][0]}
        for _ in rows:
            groups = {g for v, g in rows if v in linked and g}
            linked |= {v for v, g in rows if g in groups}
        assert linked == {v for v, _ in rows}
        return
    one, other = parts
    assert len(one)
    assert len(other)
    assert set(one.videos).isdisjoint(other.videos)
    assert (set(one.columns["group"]) & set(other.columns["group"])) <= {""}
    mine = [each for part in parts for each in part.columns["mine"].tolist()]
    assert sorted(mine) == list(range(len(rows)))
    again = manifest.split(share, seed=seed)
    assert [p.columns["mine"].tolist() for p in again] == [
        p.columns["mine"].tolist() for p in parts
    ]


def test_a_split_is_as_near_to_the_share_as_videos_allow():
    manifest = Manifest.of_rows([{"path": f"{n // 4}.mp4"} for n in range(400)])
    one, other = manifest.split(0.8)
    assert (len(one), len(other)) == (320, 80)
    assert manifest.split(0.8, seed=1)[1].videos != other.videos


def test_a_link_to_a_video_is_that_video(tmp_path):
    (tmp_path / "a.mp4").touch()
    (tmp_path / "b.mp4").symlink_to(tmp_path / "a.mp4")
    manifest = Manifest.of_rows([{"path": "a.mp4"}, {"path": "b.mp4"}], folder=tmp_path)
    with pytest.raises(ConfigError, match=r"share a video or group, .* cannot be split"):
        manifest.split(0.5)


@pytest.mark.parametrize("share", [0, 1, -0.5, 80, "most", None])
def test_a_share_is_between_0_and_1(share):
    with pytest.raises(ConfigError, match="share must be"):
        Manifest.of_rows(ROWS).split(share)


def test_a_folder_for_each_class_is_a_manifest(tmp_path):
    for name in ("dogs/1.mp4", "cats/deep/2.mp4", "cats/3.mp4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    manifest = Manifest.of_folders(tmp_path)
    assert manifest.columns["label"].tolist() == ["cats", "cats", "dogs"]
    (tmp_path / "4.mp4").touch()
    with pytest.raises(ConfigError, match=r"4\.mp4 lies in no folder of"):
        Manifest.of_folders(tmp_path)
    with pytest.raises(ConfigError, match="a folder with a folder for each class is needed"):
        Manifest.of_folders(tmp_path / "4.mp4")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"label": "x"}, "one column of paths, called path, video, file or filename; it has label"),
        ({"path": "a", "file": "b"}, "must have one column of paths"),
        ({"path": ""}, "row 0 of the manifest names no video, but ''"),
        ({"path": None}, "names no video, but None"),
        ({"path": "a\0b"}, "names no video"),
        ({"path": 7}, "names no video, but 7"),
        ({"path": "a", "label": ""}, "row 0 of the manifest has no label; give it one"),
        ({"path": "a", "label_colour": None}, "has no label_colour"),
        ({"path": "a", "start": 3}, "a column 'start'; call it start_seconds or end_seconds"),
        ({"path": "a", "start_seconds": -1}, "begins at -1 s and ends at the end of the video"),
        ({"path": "a", "start_seconds": 3, "end_seconds": 3}, "begins at 3 s and ends at 3 s"),
        ({"path": "a", "start_seconds": "soon"}, "start_seconds of row 0 .* finite number"),
        ({"path": "a", "end_seconds": float("inf")}, "end_seconds of row 0 .* finite number"),
        ({"path": "a", "weight": -1}, "weight of row 0 of the manifest is -1; it must be >= 0"),
        (
            {"path": "a", "weight": "much"},
            "weight of row 0 of the manifest must be a finite number",
        ),
        ({"path": "a", "index": 3}, "a column 'index', as batches have; rename it"),
        ({"path": "a", "values": 3}, "a column 'values', as batches have; rename it"),
        ({"path": "a", "": 3}, "a column without a name"),
        ({"path": "a", 3: 3}, "a column without a name"),
        ({"path": "a", "boxes": [1, 2]}, "boxes of row 0 of the manifest is list; a column holds"),
    ],
    ids=str,
)
def test_a_row_that_says_nothing_or_too_much_is_refused(row, message):
    with pytest.raises(ConfigError, match=message):
        Manifest.of_rows([row])


def test_no_rows_are_refused():
    with pytest.raises(ConfigError, match="holds no row; give at least one"):
        Manifest.of_rows([])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: Manifest.of_rows(None), "rows must be a list of dicts, .* got NoneType; a data"),
        (lambda m: Manifest.of_rows({"path": ["a"]}), "rows must be a list of dicts, .* got dict"),
        (lambda m: Manifest.of_rows(["a.mp4"]), "row 0 of the manifest must be a dict, .* got str"),
        (lambda m: Manifest.of_rows(ROWS, folder=None), "the folder that paths start in is needed"),
        (lambda m: Manifest.of_rows(ROWS, classes=["a"]), "as in {'label': .*, got \\['a'\\]"),
        (lambda m: Manifest.of_rows(ROWS, classes={"label": "cats"}), "a list of different texts"),
        (lambda m: Manifest.of_rows(ROWS, classes={"label": ["a", "a"]}), "of different texts"),
        (
            lambda m: Manifest.of_rows(ROWS, classes={"label": ["cats", "dogs"], "lable": ["a"]}),
            "classes of lable were given, and the manifest has no such labels .* it has label",
        ),
        (lambda m: Manifest.read(7), "the path of a manifest is needed, got int"),
        (lambda m: Manifest.of_folders(7), "the path of a folder is needed, got int"),
        (lambda m: m.split(0.5, seed="x"), "seed must be an integer >= 0, got 'x'"),
        (lambda m: m.balanced(["label"]), r"has no column \['label'\]"),
        (lambda m: m.subset([[0], [1, 2]]), "rows must be places of rows, or a bool for each"),
        (list, "in place of videos for loaders and datasets .*; elsewhere give its videos"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(ask, message):
    with pytest.raises(ConfigError, match=message) as caught:
        ask(Manifest.of_rows(ROWS))
    assert "\n" not in str(caught.value)


def test_a_manifest_says_what_it_holds():
    assert repr(Manifest.of_rows(ROWS, name="rows.csv")) == (
        "Manifest(rows.csv: 3 rows of 2 videos; columns label, weight, note, people)"
    )


@pytest.mark.parametrize("wrong", ["proxies", Path("proxies"), None, ["a.mp4"]])
def test_what_are_no_proxies_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"with_proxies takes headrace.Proxies\(folder\), got "):
        Manifest.of_rows(ROWS).with_proxies(wrong)
