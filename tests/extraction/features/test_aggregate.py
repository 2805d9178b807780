"""One feature for each video, with what a CSV file says of it."""

import json
from fractions import Fraction

import numpy as np
import pyarrow.parquet
import pytest

from extraction.features.feature_rows import facts, failed, row, write_folder
from headrace.errors import ConfigError
from headrace.extraction.features.folder import FeatureFolder
from headrace.extraction.features.result import Samples
from headrace.extraction.features.table import write_tables
from headrace.extraction.features.table_pooled import aggregate


def pool(folder, out, by="mean", **given):
    with FeatureFolder(folder) as opened:
        told = aggregate(opened, out, by, **given)
    return told, pyarrow.parquet.read_table(out)


def test_a_video_becomes_one_row(tmp_path):
    seen = []
    told, table = pool(
        write_folder(tmp_path / "f"),
        tmp_path / "o.parquet",
        on_video=lambda *done: seen.append(done),
    )
    assert table.to_pylist() == [
        {
            "video": name,
            "path": f"/data/{name}.mp4",
            "content": "sha256:89ab",
            "n": n,
            "lost": lost,
            "failed": failed,
            "features": feature,
        }
        for name, n, lost, failed, feature in [
            ("a", 20, 1, 0, [19.0] * 4),
            ("b", 5, 1, 0, [4.0] * 4),
            ("c", 0, 0, 1, None),
        ]
    ]
    assert json.loads(table.schema.metadata[b"headrace"]) == {
        **json.loads(facts().text()),
        "pooled_by": "mean",
    }
    assert (told.videos, told.empty, told.partial, told.unjoined) == (3, ("c",), ("a", "b"), ())
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_greatest_of_each_number(tmp_path):
    _, table = pool(write_folder(tmp_path / "f", shape=(2, 3)), tmp_path / "o.parquet", "max")
    assert table.column("features").to_pylist() == [[38.0] * 6, [8.0] * 6, None]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("by", ["mean", "max"])
def test_pooling_over_chunks_is_that_over_all_features(tmp_path, dtype, by):
    """Sums are kept in float64: float16 ends at 65,504."""
    numbers = np.random.default_rng(0).normal(1e3, 1e2, (700, 4)).astype(dtype)
    rows = []
    for start in range(0, 700, 256):
        part = numbers[start : start + 256]
        index = np.arange(start, start + len(part))
        of = Samples(index=index, pts=index, is_concealed=index < 0, features=part)
        rows.append(row("a", start, start, samples=of, time_base=Fraction(1, 30)))
    rows = [failed("a", 700, 800, dtype=dtype)] + [
        each.__class__(**{**vars(each), "chunk_id": f"{k}"}) for k, each in enumerate(rows)
    ]
    list(write_tables(tmp_path, rows[::-1], facts(dtype=dtype)))
    told, table = pool(tmp_path, tmp_path / "o.parquet", by)
    expected = getattr(numbers.astype(np.float64), by)(axis=0).astype(np.float32)
    np.testing.assert_array_max_ulp(
        np.array(table.column("features")[0].as_py(), np.float32), expected, 1
    )
    assert (table.column("n")[0].as_py(), told.partial) == (700, ("a",))


def test_what_is_infinite_stays_so(tmp_path):
    of = row("a", 0, 4)
    of.samples.features[:] = [[np.inf, np.inf, np.nan, 1], [np.inf, -np.inf, 1, 3]]
    list(write_tables(tmp_path, [of], facts()))
    _, table = pool(tmp_path, tmp_path / "o.parquet")
    np.testing.assert_equal(table.column("features")[0].as_py(), [np.inf, np.nan, np.nan, 2.0])


def test_many_videos_are_written_some_at_a_time(tmp_path):
    rows = [row(f"v{k:03d}", 0, 4, chunk_id=f"{k:03d}", shape=(1 << 18,)) for k in range(20)]
    list(write_tables(tmp_path, rows, facts(shape=(1 << 18,))))
    (tmp_path / "l.csv").write_text("video,k\n" + "".join(f"v{k:03d},{k}\n" for k in range(20)))
    _, table = pool(tmp_path, tmp_path / "o.parquet", labels=tmp_path / "l.csv")
    assert pyarrow.parquet.ParquetFile(tmp_path / "o.parquet").metadata.num_row_groups == 3
    assert table.column("k").to_pylist() == list(range(20))
    assert table.column("video").to_pylist() == [f"v{k:03d}" for k in range(20)]


def test_columns_are_joined_by_name_path_or_path_from_where_the_file_lies(tmp_path):
    """And keep the types of their values; lines of other videos are ignored."""
    folder = tmp_path / "f"
    folder.mkdir()
    rows = [
        row(
            name,
            0,
            4,
            chunk_id=name,
            video=row(name, 0, 4).video.__class__(
                name=name, path=str(tmp_path / f"{name}.mp4"), content=None
            ),
        )
        for name in "abcd"
    ]
    list(write_tables(folder, rows, facts()))
    labels = tmp_path / "labels.csv"
    labels.write_text(
        '\ufeffname of it, weight,video\n"x, y",1.5,a\n'
        f"z,2,{tmp_path}/b.mp4\n,,f/../c.mp4\nw,4,other\n",
        encoding="utf-8",
    )
    told, table = pool(folder, tmp_path / "o.parquet", labels=labels)
    assert table.select(["video", "name of it", " weight"]).to_pylist() == [
        {"video": "a", "name of it": "x, y", " weight": 1.5},
        {"video": "b", "name of it": "z", " weight": 2.0},
        {"video": "c", "name of it": "", " weight": None},
        {"video": "d", "name of it": None, " weight": None},
    ]
    assert told.unjoined == ("d",)


def test_names_that_look_like_numbers_are_names(tmp_path):
    list(write_tables(tmp_path, [row("007", 0, 4)], facts()))
    (tmp_path / "l.csv").write_text(" Path,label\n007,3\n")
    _, table = pool(tmp_path, tmp_path / "o.parquet", labels=tmp_path / "l.csv")
    assert table.column("label").to_pylist() == [3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
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
    ],
)
def test_labels_that_do_not_fit_are_one_line_and_leave_nothing(tmp_path, text, words):
    labels = tmp_path / "labels.csv"
    labels.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=words) as told:
        pool(write_folder(tmp_path / "f"), tmp_path / "o.parquet", labels=labels)
    assert "\n" not in str(told.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "labels.csv"]


def test_labels_that_are_not_there_are_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*none.csv: no such file or directory"):
        pool(write_folder(tmp_path / "f"), tmp_path / "o.parquet", labels=tmp_path / "none.csv")


def test_an_output_is_never_replaced_and_nothing_is_left_where_it_cannot_be_written(tmp_path):
    folder = write_folder(tmp_path / "f")
    (tmp_path / "o.parquet").write_text("mine")
    with pytest.raises(ConfigError, match="is there already; give another name, or delete it"):
        pool(folder, tmp_path / "o.parquet")
    assert (tmp_path / "o.parquet").read_text() == "mine"
    with pytest.raises(ConfigError, match=r"cannot write .*: no such file or directory"):
        pool(folder, tmp_path / "none" / "o.parquet")


def test_the_output_is_not_put_among_the_tables_of_features(tmp_path):
    folder = write_folder(tmp_path / "f")
    with pytest.raises(ConfigError, match="would be taken for a table of features"):
        pool(folder, folder / "features-mean.parquet")
    pool(folder, folder / "mean.parquet")
    assert len(FeatureFolder(folder).videos) == 3


def test_a_table_that_is_damaged_leaves_no_output(tmp_path):
    folder = write_folder(tmp_path / "f")
    path = folder / "features-00001.parquet"
    column = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(14)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"features-00001.parquet is damaged: .*CRC"):
        pool(folder, tmp_path / "o.parquet")
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


def test_features_of_nothing_are_not_pooled(tmp_path):
    list(write_tables(tmp_path, [failed("a", 0, 4)], facts()))
    with pytest.raises(
        ConfigError, match=r"no video in .* has a feature; there is nothing to pool"
    ):
        pool(tmp_path, tmp_path / "o.parquet")


def test_an_unknown_pooling_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="pooled by mean or max, got 'median'"):
        pool(write_folder(tmp_path / "f"), tmp_path / "o.parquet", "median")
