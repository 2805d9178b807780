"""Contents of a manifest, of rows and of files of any kind, and errors."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError, Manifest

ROWS = [
    {"path": "a.mp4", "label": "cats", "start_seconds": 0.1, "end_seconds": "2.5", "weight": 3},
    {"path": "b.mp4", "label": "dogs", "weight": 1, "note": "a note"},
    {"path": "a.mp4", "label": "dogs", "end_seconds": 2, "weight": "0.5", "people": 4},
]


def test_rows_have_videos_segments_classes_and_other_columns():
    manifest = Manifest.of_rows(ROWS, folder="clips", name="rows.csv")
    assert repr(manifest) == (
        "Manifest(rows.csv: 3 rows of 2 videos; columns label, weight, note, people)"
    )
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
    # Each class counts the same.
    assert manifest.balanced() == (1.0, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert manifest.balanced("weight") == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (["3", "-1", "0"], np.int64, [3, -1, 0]),
        ([3, True], np.int64, [3, 1]),
        ([0.5, True], np.float64, [0.5, 1]),
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


def test_a_column_without_classes_is_an_error_with_the_columns():
    rows = [{"path": "a.mp4", "lable": "dog", "class": 3}]
    for manifest in (Manifest.of_rows(rows), Manifest.of_rows(rows * 2).subset([0])):
        for name in ("label", "class"):
            with pytest.raises(KeyError, match=f"text labels '{name}'; it has path, lable, class"):
                manifest.classes[name]


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
    assert min(len(one), len(other)) > 0
    assert set(one.videos).isdisjoint(other.videos)
    assert (set(one.columns["group"]) & set(other.columns["group"])) <= {""}
    mine, again = (
        [part.columns["mine"].tolist() for part in halves]
        for halves in (parts, manifest.split(share, seed=seed))
    )
    assert sorted([*mine[0], *mine[1]]) == list(range(len(rows)))
    assert again == mine


def test_a_split_is_as_near_to_the_share_as_videos_allow():
    manifest = Manifest.of_rows([{"path": f"{n // 4}.mp4"} for n in range(400)])
    one, other = manifest.split(0.8)
    assert (len(one), len(other)) == (320, 80)
    assert manifest.split(0.8, seed=1)[1].videos != other.videos


def test_a_folder_for_each_class_is_a_manifest(tmp_path):
    for name in ("dogs/1.mp4", "cats/deep/2.mp4", "cats/3.mp4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert Manifest.of_folders(tmp_path).columns["label"].tolist() == ["cats", "cats", "dogs"]


def test_invalid_rows_are_refused_in_one_line(tmp_path, refused):
    (tmp_path / "classes" / "dogs").mkdir(parents=True)
    (tmp_path / "a.mp4").touch()
    (tmp_path / "b.mp4").symlink_to(tmp_path / "a.mp4")
    (tmp_path / "classes" / "4.mp4").touch()
    linked = Manifest.of_rows([{"path": "a.mp4"}, {"path": "b.mp4"}], folder=tmp_path)
    refused("manifest", manifest=Manifest.of_rows(ROWS), linked=linked, folder=tmp_path)


FILED = [
    {"path": "a.mp4", "label": "cats", "start_seconds": 1.5, "note": 'says "hello", twice'},
    {"path": "sub/b.mp4", "label": "dogs", "start_seconds": None, "note": "two\nlines"},
]
CSV = (
    "path, label,start_seconds,note\r\n"
    'a.mp4,cats,1.5,"says ""hello"", twice"\r\n'
    'sub/b.mp4,dogs,,"two\nlines"\r\n'
)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_all_file_formats_give_the_same_manifest(tmp_path, kind):
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(FILED), path)
    else:
        lines = "\n".join(map(json.dumps, FILED)) + "\n\n"
        path.write_bytes(lines.encode() if kind == "jsonl" else b"\xef\xbb\xbf" + CSV.encode())
    manifest = Manifest.read(path)
    assert manifest.videos == (tmp_path / "a.mp4", tmp_path / "sub" / "b.mp4")
    assert manifest.segments == ((1.5, None), (0, None))
    assert manifest.columns["note"].tolist() == [row["note"] for row in FILED]
    assert manifest.classes == {"label": ("cats", "dogs")}


def test_tabs_may_stand_for_commas_and_a_part_knows_the_lines_of_the_file(tmp_path):
    (tmp_path / "rows.tsv").write_text("path\tnote\na.mp4\tone, two\n")
    assert Manifest.read(tmp_path / "rows.tsv").columns["note"].tolist() == ["one, two"]
    (tmp_path / "rows.csv").write_text('path,note\na.mp4,"two\nlines"\n\nb.mp4,one\n')
    manifest = Manifest.read(tmp_path / "rows.csv")
    assert manifest.subset([1]).places.where(0) == f"line 5 of {tmp_path / 'rows.csv'}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.txt", "a.mp4 long jump\nb.mp4 run\n"),
        ("rows.csv", "a.mp4 long jump\nb.mp4 run\n"),
        ("rows.csv", "a.mp4,long jump\nb.mp4,run\n"),
        ("rows.csv", "Path,LABEL\na.mp4,long jump\nb.mp4,run\n"),
    ],
)
def test_labels_may_stand_behind_paths_without_a_line_of_names(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    manifest = Manifest.read(tmp_path / name)
    assert manifest.videos == (tmp_path / "a.mp4", tmp_path / "b.mp4")
    assert manifest.classes == {"label": ("long jump", "run")}


def test_invalid_manifest_files_are_refused(tmp_path, refused):
    def read(name, content=None):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        Manifest.read(tmp_path / name)

    (tmp_path / "folder.csv").mkdir()
    refused("manifest_files", read=read)
