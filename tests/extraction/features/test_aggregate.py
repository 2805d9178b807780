"""One feature for each video, with what a CSV file says of it."""

import json

import numpy as np
import pyarrow.parquet
import pytest

from extraction.features.feature_rows import damage_features, facts, failed, row, write_folder
from headrace.errors import ConfigError
from headrace.extraction.features.folder import FeatureFolder
from headrace.extraction.features.result import Samples
from headrace.extraction.features.table_pooled import aggregate
from headrace.extraction.features.table_row import VideoName


@pytest.fixture
def pool(folder, tmp_path):
    """Pool features into a table; return what was told of it, and the table."""

    def pool(by="mean", *, folder=folder, out=tmp_path / "o.parquet", **given):
        with FeatureFolder(folder) as opened:
            told = aggregate(opened, out, by, **given)
        return told, pyarrow.parquet.read_table(out)

    return pool


@pytest.fixture
def labels(tmp_path):
    """Write a CSV file; return its path."""

    def write_labels(text):
        path = tmp_path / "labels.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_labels


def test_a_video_becomes_one_row(pool):
    seen = []
    told, table = pool(on_video=lambda *done: seen.append(done))
    names = ["video", "n", "lost", "failed", "features"]
    assert table.to_pylist() == [
        {
            **{"path": f"/data/{values[0]}.mp4", "content": "sha256:89ab"},
            **dict(zip(names, values, strict=True)),
        }
        for values in [
            ("a", 20, 1, 0, [19.0] * 4),
            ("b", 5, 1, 0, [4.0] * 4),
            ("c", 0, 0, 1, None),
        ]
    ]
    assert table.column_names == ["video", "path", "content", "n", "lost", "failed", "features"]
    known = json.loads(table.schema.metadata[b"headrace"])
    assert known == {**json.loads(facts().text()), "pooled_by": "mean"}
    assert (told.videos, told.empty, told.partial, told.unjoined) == (3, ("c",), ("a", "b"), ())
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_greatest_of_each_number(pool, tmp_path):
    _, table = pool("max", folder=write_folder(tmp_path / "g", shape=(2, 3)))
    assert table.column("features").to_pylist() == [[38.0] * 6, [8.0] * 6, None]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("by", ["mean", "max"])
def test_pooling_over_chunks_is_that_over_all_features(tmp_path, write, pool, dtype, by):
    """Sums are kept in float64: float16 ends at 65,504."""
    numbers = np.random.default_rng(0).normal(1e3, 1e2, (700, 4)).astype(dtype)
    rows = [failed("a", 700, 800, dtype=dtype)]
    for start in range(0, 700, 256):
        part = numbers[start : start + 256]
        index = np.arange(start, start + len(part))
        of = Samples(index=index, pts=index, is_concealed=index < 0, features=part)
        rows.append(row("a", start, start, samples=of, chunk_id=str(start)))
    write(*rows[::-1], dtype=dtype)
    told, table = pool(by, folder=tmp_path)
    wanted = getattr(numbers.astype(np.float64), by)(axis=0).astype(np.float32)
    found = np.array(table.column("features")[0].as_py(), np.float32)
    np.testing.assert_array_max_ulp(found, wanted, 1)
    assert (table.column("n")[0].as_py(), told.partial) == (700, ("a",))


def test_what_is_infinite_stays_so(tmp_path, write, pool):
    of = row("a", 0, 4)
    of.samples.features[:] = [[np.inf, np.inf, np.nan, 1], [np.inf, -np.inf, 1, 3]]
    write(of)
    found = pool(folder=tmp_path)[1].column("features")[0].as_py()
    np.testing.assert_equal(found, [np.inf, np.nan, np.nan, 2.0])


def test_many_videos_are_written_some_at_a_time(tmp_path, write, pool, labels):
    names, shape = [f"v{k:03d}" for k in range(20)], (1 << 18,)
    write(*(row(name, 0, 4, chunk_id=name, shape=shape) for name in names), shape=shape)
    lines = "".join(f"{name},{k}\n" for k, name in enumerate(names))
    _, table = pool(folder=tmp_path, labels=labels(f"video,k\n{lines}"))
    assert pyarrow.parquet.ParquetFile(tmp_path / "o.parquet").metadata.num_row_groups == 3
    assert table.column("k").to_pylist() == list(range(20))
    assert table.column("video").to_pylist() == names


def test_columns_are_joined_by_name_path_or_path_from_where_the_file_lies(
    tmp_path, write, pool, labels
):
    """And keep the types of their values; lines of other videos are ignored."""
    for name in "abcd":
        video = VideoName(name=name, path=str(tmp_path / f"{name}.mp4"), content=None)
        write(row(name, 0, 4, chunk_id=name, video=video))
    path = labels(
        '\ufeffname of it, weight,video\n"x, y",1.5,a\n'
        f"z,2,{tmp_path}/b.mp4\n,,f/../c.mp4\nw,4,other\n"
    )
    told, table = pool(folder=tmp_path, labels=path)
    assert table.select(["video", "name of it", " weight"]).to_pylist() == [
        {"video": "a", "name of it": "x, y", " weight": 1.5},
        {"video": "b", "name of it": "z", " weight": 2.0},
        {"video": "c", "name of it": "", " weight": None},
        {"video": "d", "name of it": None, " weight": None},
    ]
    assert told.unjoined == ("d",)


def test_names_that_look_like_numbers_are_names(tmp_path, write, pool, labels):
    write(row("007", 0, 4))
    _, table = pool(folder=tmp_path, labels=labels(" Path,label\n007,3\n"))
    assert table.column("label").to_pylist() == [3]


REFUSED = [
    ("video,label\na,1\nb,2\n/data/a.mp4,3\n", "rows 1 and 3 of .* are both of the video a"),
    ("video,label\nx,1\n", "says nothing of any video; video must be a name, such as a, or"),
    ("video,label\n", "says nothing of any video"),
    ("who,label\na,1\n", "has the columns who, label; it must have one of path, video, file"),
    ("video\na\n", "has the columns video; it must have one of .*, and another one to join"),
    ("video,n\na,1\n", "has a column n, which is there already; give it another name"),
    ("video,l,l\na,1,2\n", "has a column l, which is there already"),
    ("video,path\na,x\n", "has a column path, which is there already"),
    ("video,label\na,1,2\n", "is no CSV file in UTF-8: CSV parse error"),
    ("", "is no CSV file in UTF-8: Empty CSV file"),
    (b"video,label\n\xff\xfe,1\n", "is no CSV file in UTF-8"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_labels_that_do_not_fit_are_one_line_and_leave_nothing(pool, tmp_path, labels, text, words):
    with pytest.raises(ConfigError, match=words) as told:
        pool(labels=labels(text))
    assert "\n" not in str(told.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "labels.csv"]


def test_an_output_is_never_replaced_or_put_among_the_tables_of_features(folder, pool, tmp_path):
    (tmp_path / "o.parquet").write_text("mine")
    new = tmp_path / "p.parquet"
    for given, words in [
        ({}, "is there already; give another name, or delete it"),
        ({"out": tmp_path / "none" / "o.parquet"}, "cannot write .*: no such file or directory"),
        ({"out": folder / "features-mean.parquet"}, "would be taken for a table of features"),
        (
            {"out": new, "labels": tmp_path / "none.csv"},
            "cannot read .*none.csv: no such file or directory",
        ),
        ({"out": new, "by": "median"}, "pooled by mean or max, got 'median'"),
    ]:
        with pytest.raises(ConfigError, match=words):
            pool(**given)
    assert (tmp_path / "o.parquet").read_text() == "mine"
    pool(out=folder / "mean.parquet")
    assert len(FeatureFolder(folder).videos) == 3


def test_a_table_that_is_damaged_leaves_no_output(folder, pool, tmp_path):
    damage_features(folder / "features-00001.parquet")
    with pytest.raises(ConfigError, match=r"features-00001.parquet is damaged: .*CRC"):
        pool()
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_features_of_nothing_are_not_pooled(tmp_path, write, pool):
    write(failed("a", 0, 4))
    words = r"no video in .* has a feature; there is nothing to pool"
    with pytest.raises(ConfigError, match=words):
        pool(folder=tmp_path)
