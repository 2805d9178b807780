"""Features pooled to one per video, with columns of a CSV file."""

import json

import numpy as np
import pyarrow.parquet
import pytest

from extraction.features.feature_rows import damage_features, facts, failed, row, write_folder
from headrace.errors import ConfigError
from headrace.extraction.features.aggregate import aggregate
from headrace.extraction.features.feature_folder import FeatureFolder
from headrace.extraction.features.feature_result import Samples, VideoName


@pytest.fixture
def pool(folder, tmp_path):
    """Return a function that pools features into a table, and returns its result and the table."""

    def pool(by="mean", *, folder=folder, out=tmp_path / "o.parquet", **options):
        result = aggregate(FeatureFolder(folder), out, by, **options)
        # Not `read_table`: its threads may keep the file open for a moment.
        with pyarrow.parquet.ParquetFile(out) as file:
            return result, file.read(use_threads=False)

    return pool


@pytest.fixture
def labels(tmp_path):
    """Return a function that writes a CSV file and returns its path."""

    def write_labels(text):
        path = tmp_path / "labels.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_labels


def test_each_video_is_one_row(holds, pool):
    progress = []
    result, table = pool(on_video=lambda *done: progress.append(done))
    holds("pooled.json", "".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    metadata = json.loads(table.schema.metadata[b"headrace"])
    assert metadata == {**json.loads(facts().text()), "pooled_by": "mean"}
    assert (result.videos, result.empty, result.unjoined) == (3, ("c",), ())
    assert result.partial == ("a", "b")
    assert progress == [(1, 3), (2, 3), (3, 3)]


def test_max_pooling_is_elementwise(pool, tmp_path):
    _, table = pool("max", folder=write_folder(tmp_path / "g", shape=(2, 3)))
    assert table.column("features").to_pylist() == [[38.0] * 6, [8.0] * 6, None]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("by", ["mean", "max"])
def test_pooling_by_chunks_equals_pooling_all_features(tmp_path, write, pool, dtype, by):
    """Sums are kept in float64: float16 ends at 65,504."""
    numbers = np.random.default_rng(0).normal(1e3, 1e2, (700, 4)).astype(dtype)
    rows = [failed("a", 700, 800, dtype=dtype)]
    for start in range(0, 700, 256):
        part = numbers[start : start + 256]
        index = np.arange(start, start + len(part))
        samples = Samples(index=index, pts=index, is_concealed=index < 0, features=part)
        rows.append(row("a", start, start, samples=samples, chunk_id=str(start)))
    write(*rows[::-1], dtype=dtype)
    result, table = pool(by, folder=tmp_path)
    expected = getattr(numbers.astype(np.float64), by)(axis=0).astype(np.float32)
    pooled = np.array(table.column("features")[0].as_py(), np.float32)
    np.testing.assert_array_max_ulp(pooled, expected, 1)
    assert (table.column("n")[0].as_py(), result.partial) == (700, ("a",))


def test_nan_and_inf_are_pooled_as_by_numpy(tmp_path, write, pool):
    result = row("a", 0, 4)
    result.samples.features[:] = [[np.inf, np.inf, np.nan, 1], [np.inf, -np.inf, 1, 3]]
    write(result)
    pooled = pool(folder=tmp_path)[1].column("features")[0].as_py()
    np.testing.assert_equal(pooled, [np.inf, np.nan, np.nan, 2.0])


def test_many_videos_are_written_in_row_groups(tmp_path, write, pool, labels):
    names, shape = [f"v{k:03d}" for k in range(20)], (1 << 18,)
    write(*(row(name, 0, 4, chunk_id=name, shape=shape) for name in names), shape=shape)
    lines = "".join(f"{name},{k}\n" for k, name in enumerate(names))
    _, table = pool(folder=tmp_path, labels=labels(f"video,k\n{lines}"))
    assert pyarrow.parquet.ParquetFile(tmp_path / "o.parquet").metadata.num_row_groups == 3
    assert table.column("k").to_pylist() == list(range(20))
    assert table.column("video").to_pylist() == names


def test_columns_are_joined_by_name_path_or_relative_path(tmp_path, write, pool, labels):
    """Columns keep the types of their values; rows of other videos are listed."""
    for name in "abcd":
        video = VideoName(name=name, path=str(tmp_path / f"{name}.mp4"), content=None)
        write(row(name, 0, 4, chunk_id=name, video=video))
    path = labels(
        '\ufeffname of it, weight,video\n"x, y",1.5,a\n'
        f"z,2,{tmp_path}/b.mp4\n,,f/../c.mp4\nw,4,other\n"
    )
    result, table = pool(folder=tmp_path, labels=path)
    assert table.select(["video", "name of it", " weight"]).to_pylist() == [
        {"video": "a", "name of it": "x, y", " weight": 1.5},
        {"video": "b", "name of it": "z", " weight": 2.0},
        {"video": "c", "name of it": "", " weight": None},
        {"video": "d", "name of it": None, " weight": None},
    ]
    assert (result.unjoined, result.unmatched) == (("d",), ("other",))


def test_columns_are_joined_by_file_name_where_it_is_unique(tmp_path, write, pool, labels):
    for name, path in (("a", "x/a.mp4"), ("y_b", "y/b.mp4"), ("z_b", "z/b.mp4")):
        video = VideoName(name=name, path=str(tmp_path / path), content=None)
        write(row(name, 0, 4, chunk_id=name, video=video))
    result, table = pool(folder=tmp_path, labels=labels("file,label\na.mp4,1\nb.mp4,2\n"))
    assert table.column("label").to_pylist() == [1, None, None]
    assert (result.unjoined, result.unmatched) == (("y_b", "z_b"), ("b.mp4",))


def test_numeric_names_stay_text(tmp_path, write, pool, labels):
    write(row("007", 0, 4))
    _, table = pool(folder=tmp_path, labels=labels(" Path,label\n007,3\n"))
    assert table.column("label").to_pylist() == [3]


def test_the_output_may_be_in_the_folder_of_the_features(folder, pool):
    pool(out=folder / "mean.parquet")
    assert len(FeatureFolder(folder).videos) == 3


def test_a_damaged_table_leaves_no_output(folder, pool, tmp_path):
    damage_features(folder / "features-00001.parquet")
    with pytest.raises(ConfigError, match=r"features-00001.parquet is damaged: .*CRC"):
        pool()
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
