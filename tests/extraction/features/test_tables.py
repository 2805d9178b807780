"""Tables of features: whole or not at all, exact, and honest about damage."""

import pyarrow.parquet
import pytest

from extraction.features.feature_rows import facts, failed, files_of_at_most, row
from headrace.errors import ConfigError
from headrace.extraction.features.chunks import ChunkSpec
from headrace.extraction.features.result import ChunkResult
from headrace.extraction.features.table import write_features, write_tables
from headrace.extraction.features.table_columns import columns_of
from headrace.extraction.features.table_file import TableFile, damage_of
from headrace.extraction.features.table_row import VideoName, row_of_result


def plain(found):
    """All that a row tells, in values that can be compared."""
    samples = {name: array.tolist() for name, array in vars(found.samples).items()}
    return {**vars(found), "samples": samples, "dtype": found.samples.features.dtype}


def read(path):
    table = TableFile(path)
    return [table.row(table.columns(each.group), each.place) for each in table.listed()]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 5)])
def test_rows_come_back_as_they_were(tmp_path, dtype, shape):
    known = facts(dtype=dtype, shape=shape, clip_len=16, stride=2)
    rows = [
        row("a", 0, 40, shape=shape, dtype=dtype),
        failed("a", 40, 80, shape=shape, dtype=dtype),
        row("b", 0, 0, shape=shape, dtype=dtype),
        row("b", 0, 10, shape=shape, dtype=dtype),
    ]
    written = write_features(tmp_path / "features-00000.parquet", rows, known)
    assert TableFile(written.path).facts == known
    assert list(map(plain, read(written.path))) == list(map(plain, rows))
    assert written.chunk_ids == tuple(each.chunk_id for each in rows)


def test_a_table_has_the_columns_that_are_documented(tmp_path):
    path = tmp_path / "features-00000.parquet"
    write_features(path, [row("a", 0, 6)], facts())
    (found,) = pyarrow.parquet.read_table(path).to_pylist()
    assert found == {
        "chunk_id": "a-00000000-00000006",
        "video": "a",
        "path": "/data/a.mp4",
        "content": "sha256:89ab",
        "status": "done",
        "error": None,
        "width": 640,
        "height": 360,
        "n": 3,
        "time_base_num": 1,
        "time_base_den": 15360,
        "index": [0, 2, 4],
        "pts": [0, 1024, 2048],
        "is_concealed": [True, False, True],
        "features": [[0.0] * 4, [2.0] * 4, [4.0] * 4],
        "lost_index": [7],
        "lost_cause": ["damaged"],
        "decode_ms": 1.5,
        "queue_ms": 0.0,
        "prepare_ms": 0.0,
        "transfer_ms": 0.0,
        "model_ms": 2.5,
        "write_ms": 0.0,
        "cache_hit": True,
        "worker": "w-1",
    }


def test_a_table_is_ended_when_it_is_large_and_the_next_one_begun(tmp_path):
    rows = [row("a", start, start + 4) for start in range(0, 3 * 4096, 4)]
    written = list(write_tables(tmp_path, rows, facts(), most_bytes=20_000))
    assert [each.path.name for each in written] == [f"features-{k:05d}.parquet" for k in range(2)]
    assert sorted(tmp_path.iterdir()) == [each.path for each in written]
    assert [each for one in written for each in one.chunk_ids] == [each.chunk_id for each in rows]


def test_rows_are_taken_only_as_tables_are_asked_for(tmp_path):
    def rows():
        yield from (row("a", start, start + 4, shape=(1 << 20,)) for start in (0, 4))
        raise AssertionError("nobody asked for more")

    tables = write_tables(tmp_path, rows(), facts(shape=(1 << 20,)), most_bytes=1)
    assert next(tables).chunk_ids == ("a-00000000-00000004",)
    tables.close()
    assert [path.name for path in tmp_path.iterdir()] == ["features-00000.parquet"]


def test_new_tables_stand_behind_those_that_are_there_or_were_set_aside(tmp_path):
    (tmp_path / "features-00002.parquet").touch()
    (tmp_path / "features-00006.parquet.damaged").touch()
    (written,) = write_tables(tmp_path, [row("a", 0, 4)], facts())
    assert written.path.name == "features-00007.parquet"


def test_what_fails_in_the_middle_leaves_no_table(tmp_path):
    def rows():
        yield row("a", 0, 4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(write_tables(tmp_path, rows(), facts()))
    with pytest.raises(KeyboardInterrupt):
        write_features(tmp_path / "mine.parquet", rows(), facts())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [1, 40])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, rows):
    """Whether it is found out at the end or before."""
    wide = [row("a", 0, 4000, shape=(64,))] * rows
    with files_of_at_most(1000), pytest.raises(ConfigError) as told:
        list(write_tables(tmp_path, wide, facts(shape=(64,))))
    assert str(told.value) == (
        f"cannot write {tmp_path}/features-00000.parquet: file too large; "
        "give a place that can be written to"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_table_replaces_none(tmp_path):
    (tmp_path / "features-00000.parquet").write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        write_features(tmp_path / "features-00000.parquet", [row("a", 0, 4)], facts())
    assert (tmp_path / "features-00000.parquet").read_text() == "mine"


def test_a_folder_that_is_none_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot write .*: no such file or directory; give"):
        list(write_tables(tmp_path / "none", [row("a", 0, 4)], facts()))


@pytest.mark.parametrize(
    "given", [{"shape": (5,)}, {"shape": (2, 2)}, {"dtype": "float16"}], ids=str
)
def test_features_of_another_kind_are_refused(tmp_path, given):
    with pytest.raises(ConfigError, match=r"/data/a.mp4 are float.* \[4\]$|choose a layer"):
        list(write_tables(tmp_path, [row("b", 0, 4), row("a", 0, 4, **given)], facts()))
    assert list(tmp_path.iterdir()) == []


def cut(content):
    return content[:-1]


def cut_in_the_middle(content):
    return content[: len(content) // 2]


def empty(content):
    return b""


@pytest.mark.parametrize("change", [cut, cut_in_the_middle, empty])
def test_a_table_that_is_cut_off_is_named(tmp_path, change):
    path = write_features(tmp_path / "features-00000.parquet", [row("a", 0, 4)], facts()).path
    path.write_bytes(change(path.read_bytes()))
    found = damage_of(path)
    assert found is not None
    assert found.startswith(f"{path} is damaged: ")
    assert found.endswith("run the same extraction again, which makes anew what was in it")
    assert "\n" not in found
    assert ".;" not in found


def test_a_flipped_bit_of_a_feature_is_found_when_it_is_read(tmp_path):
    path = tmp_path / "features-00000.parquet"
    write_features(path, [row("a", 0, 4000)], facts())
    content = bytearray(path.read_bytes())
    column = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(14)
    assert column.path_in_schema.startswith("features.")
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    assert damage_of(path) is None
    with pytest.raises(ConfigError, match=r"is damaged: .*CRC"):
        read(path)


def test_another_table_is_none_of_features(tmp_path):
    path = tmp_path / "features-00000.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), path)
    assert damage_of(path) == f"{path} is no table of features; move it elsewhere"


def test_a_table_of_other_columns_or_another_version_is_not_read(tmp_path):
    path = tmp_path / "features-00000.parquet"
    known = columns_of([row("a", 0, 4)], facts())
    pyarrow.parquet.write_table(known.drop_columns(["worker"]), path)
    assert damage_of(path) == (
        f"{path} is no table of features, as its columns are others; move it elsewhere"
    )
    later = {"headrace": facts().text().replace('"version": 1', '"version": 2')}
    pyarrow.parquet.write_table(known.replace_schema_metadata(later), path)
    assert "its layout is version 2, not 1" in damage_of(path)


def test_a_table_that_is_not_there_is_not_called_damaged(tmp_path):
    path = tmp_path / "features-00000.parquet"
    assert damage_of(path) == f"cannot read {path}: no such file or directory"


def test_names_that_are_no_text_are_spelt_out(tmp_path):
    name = VideoName(name="a\udcff", path="/data/a\udcff.mp4", content=None)
    path = tmp_path / "features-00000.parquet"
    write_features(path, [row("a", 0, 4, video=name)], facts())
    assert read(path)[0].video == VideoName(
        name="a\\udcff", path="/data/a\\udcff.mp4", content=None
    )


def test_a_result_becomes_a_row(tmp_path):
    of = row("a", 0, 8)
    result = ChunkResult(
        chunk=ChunkSpec(video=3, start=0, stop=8, samples=4),
        size=of.size,
        time_base=of.time_base,
        samples=of.samples,
        lost=of.lost,
        made=of.made,
    )
    found = row_of_result(result, of.video)
    assert plain(found) == {**plain(of), "chunk_id": result.chunk.name}
