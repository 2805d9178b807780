"""Tables of features, and the parts that become tables: whole or not at all, exact, and honest
about damage."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow.parquet
import pytest

from extraction.features.feature_rows import damage_features, facts, failed, names, row
from headrace.errors import ConfigError
from headrace.extraction.extraction_options import OutputSpec, RequestedVideo
from headrace.extraction.features.feature_result import (
    ChunkResult,
    Lost,
    Outcome,
    Samples,
    VideoName,
)
from headrace.extraction.features.feature_table import TableFile, TableOutput, write_tables
from headrace.extraction.features.table_columns import columns_of, schema_of
from headrace.extraction.features.table_store import PartFiles, TableStore, gather
from headrace.extraction.journal import Journal
from headrace.planning.chunks import Chunk
from headrace.records import from_dict
from sinks.made import disk_full_after


def plain(found):
    """All that a row tells, in values that can be compared."""
    samples = {name: array.tolist() for name, array in vars(found.samples).items()}
    return {**vars(found), "samples": samples, "dtype": found.samples.features.dtype}


def read(path):
    table = TableFile(path)
    return [table.row(table.columns(each.group), each.place) for each in table.listed()]


def write_features(path, rows, known):
    """Write rows as the one table of a new folder: `path`."""
    [written] = write_tables(path.parent, rows, known)
    assert written.path == path
    return written


def damage_of(path):
    """Return the message of a damaged table; None where its footer and list are whole."""
    try:
        TableFile(path).listed()
    except ConfigError as error:
        return str(error)
    return None


@pytest.fixture
def path(tmp_path):
    return tmp_path / "features-00000.parquet"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 5)])
def test_rows_come_back_as_they_were(path, dtype, shape):
    kind = {"shape": shape, "dtype": dtype}
    known = facts(**kind, clip_len=16, stride=2)
    rows = [row("a", 0, 40, **kind), failed("a", 40, 80, **kind)]
    rows += [row("b", 0, 0, **kind), row("b", 0, 10, **kind)]
    written = write_features(path, rows, known)
    assert TableFile(written.path).facts == known
    assert list(map(plain, read(written.path))) == list(map(plain, rows))
    assert written.chunk_ids == tuple(each.chunk_id for each in rows)


def test_a_table_has_the_columns_that_are_documented(holds, path):
    write_features(path, [row("a", 0, 6)], facts())
    (found,) = pyarrow.parquet.read_table(path).to_pylist()
    holds("row.json", json.dumps(found, indent=1) + "\n")


def test_a_table_is_ended_when_it_is_large_and_the_next_one_begun(tmp_path):
    rows = [row("a", start, start + 4) for start in range(0, 3 * 4096, 4)]
    written = list(write_tables(tmp_path, rows, facts(), table_bytes=20_000))
    assert names(tmp_path) == [f"features-{k:05d}.parquet" for k in range(2)]
    assert sorted(tmp_path.iterdir()) == [each.path for each in written]
    assert [each for one in written for each in one.chunk_ids] == [each.chunk_id for each in rows]


def test_rows_are_taken_only_as_tables_are_asked_for(tmp_path):
    def rows():
        yield from (row("a", start, start + 4, shape=(1 << 20,)) for start in (0, 4))
        raise AssertionError("nobody asked for more")

    tables = write_tables(tmp_path, rows(), facts(shape=(1 << 20,)), table_bytes=1)
    assert next(tables).chunk_ids == ("a-00000000-00000004",)
    tables.close()
    assert names(tmp_path) == ["features-00000.parquet"]


def test_new_tables_stand_behind_those_that_are_there_or_were_set_aside(tmp_path, write):
    (tmp_path / "features-00002.parquet").touch()
    (tmp_path / "features-00006.parquet.damaged").touch()
    assert [written.path.name for written in write(row("a", 0, 4))] == ["features-00007.parquet"]


def test_what_fails_in_the_middle_leaves_no_table(tmp_path):
    def rows():
        yield row("a", 0, 4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(write_tables(tmp_path, rows(), facts()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [1, 40])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, path, write, rows):
    """Whether it is found out at the end or before."""
    wide = [row("a", 0, 4000, shape=(64,))] * rows
    with disk_full_after(1000), pytest.raises(ConfigError) as told:
        write(*wide, shape=(64,))
    assert str(told.value) == (f"cannot write {path}: file too large; give a writable path")
    assert list(tmp_path.iterdir()) == []


def test_a_table_replaces_none_and_needs_a_folder(tmp_path, path):
    path.write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        TableOutput(path, schema_of(facts()))
    assert path.read_text() == "mine"
    with pytest.raises(ConfigError, match=r"cannot write .*: no such file or directory; give"):
        list(write_tables(tmp_path / "none", [row("a", 0, 4)], facts()))


@pytest.mark.parametrize(
    "given", [{"shape": (5,)}, {"shape": (2, 2)}, {"dtype": "float16"}], ids=str
)
def test_features_of_another_kind_are_refused(tmp_path, write, given):
    with pytest.raises(ConfigError, match=r"/data/a.mp4 are float.* \[4\]$|choose a layer"):
        write(row("b", 0, 4), row("a", 0, 4, **given))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [lambda whole: whole - 1, lambda whole: whole // 2, lambda _: 0])
def test_a_table_that_is_cut_off_is_named(path, cut):
    write_features(path, [row("a", 0, 4)], facts())
    path.write_bytes(path.read_bytes()[: cut(path.stat().st_size)])
    found = damage_of(path)
    assert found.startswith(f"{path} is damaged: ")
    assert found.endswith("run the same extraction again, which makes anew what was in it")
    assert ("\n" in found, ".;" in found) == (False, False)


def test_a_flipped_bit_of_a_feature_is_found_when_it_is_read(path):
    write_features(path, [row("a", 0, 4000)], facts())
    damage_features(path)
    assert damage_of(path) is None
    with pytest.raises(ConfigError, match=r"is damaged: .*CRC"):
        read(path)


def test_another_table_is_none_of_features(path):
    known = columns_of([row("a", 0, 4)], facts())
    later = {"headrace": facts().text().replace('"version": 1', '"version": 2')}
    assert damage_of(path) == f"cannot read {path}: no such file or directory"
    none, again = "is no table of features", "delete it and run the same extraction again"
    for other, words in [
        (pyarrow.table({"a": [1]}), f"{none}; move it elsewhere"),
        (known.drop_columns(["worker"]), f"{none}, as its columns are others; move it elsewhere"),
        (known.replace_schema_metadata(later), f"its layout is version 2, not 1; {again}"),
    ]:
        pyarrow.parquet.write_table(other, path)
        assert words in damage_of(path)


def test_names_that_are_no_text_are_spelt_out(path):
    name = VideoName(name="a\udcff", path="/data/a\udcff.mp4", content=None)
    write_features(path, [row("a", 0, 4, video=name)], facts())
    [found] = read(path)
    assert (found.video.name, found.video.path) == ("a\\udcff", "/data/a\\udcff.mp4")
    assert found.video.content is None


FACTS = facts(shape=(2,))
CHUNKS = [Chunk(video=0, start=10 * k, stop=10 * k + 10, frames=3) for k in range(3)]
REQUEST = OutputSpec(
    kind="features",
    asked={},
    videos=(RequestedVideo(name="a", path="/a.mp4", size=1, mtime_ns=1),),
)
LOST = [(Lost(index=chunk.start + 9, cause="damaged"),) for chunk in CHUNKS]


def result(number):
    chunk = CHUNKS[number]
    index = np.array([chunk.start, chunk.start + 5])
    samples = Samples(
        index=index,
        pts=index * 2,
        is_concealed=np.array([False, True]),
        features=np.ones((2, 2), np.float32),
    )
    kind = {"size": (4, 6), "time_base": Fraction(1, 30)}
    return ChunkResult(chunk_id=chunk.name, samples=samples, lost=LOST[number], **kind)


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "out")
    with journal.held(REQUEST):
        yield journal


@pytest.fixture
def parts(journal):
    parts = PartFiles(journal)
    for number in range(len(CHUNKS)):
        assert parts.write(result(number)).made.times.write_ms > 0
    return parts


@pytest.fixture
def gathered(journal, parts):
    """Gather the parts into tables; return them."""

    def gathered():
        tables = TableStore(journal.folder, FACTS)
        gather(tables, parts, CHUNKS, lambda _: VideoName(name="a", path="/a.mp4", content=None))
        return tables

    return gathered


def noted(journal):
    """What the journal tells of the chunks that have a part."""
    done = journal.done(chunk.name for chunk in CHUNKS)
    return {
        name: from_dict(Outcome, entry.facts["outcome"], file=name) for name, entry in done.items()
    }


def test_what_parts_tell_and_what_the_table_of_them_tells_is_the_same(journal, gathered, parts):
    expected = {
        chunk.name: Outcome(came=2, lost=lost, concealed=(chunk.start + 5,))
        for chunk, lost in zip(CHUNKS, LOST, strict=True)
    }
    assert noted(journal) == expected
    assert gathered().outcomes() == expected
    assert noted(journal) == {}
    assert not list(parts.path.iterdir())


def test_a_damaged_part_is_named_and_removed_and_the_others_are_gathered(journal, gathered, parts):
    path = parts.path / CHUNKS[1].name
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{path} was damaged .* run the same command again"):
        gathered()
    assert list(TableStore(journal.folder, FACTS).outcomes()) == [CHUNKS[0].name, CHUNKS[2].name]
    assert noted(journal) == {}


def test_parts_that_a_table_holds_already_are_swept(journal, gathered, parts):
    tables = gathered()
    parts.write(result(0))  # as if the run had been killed before it was removed
    parts.forget_all(tables.outcomes())
    assert noted(journal) == {}


def test_a_table_of_something_else_is_no_table_of_this_folder(journal, gathered):
    gathered()
    other = TableStore(journal.folder, replace(FACTS, request="sha256:1"))
    assert other.outcomes() == {}
    other.set_aside_damaged()
    assert "is of another extraction" in other.damaged[0]
