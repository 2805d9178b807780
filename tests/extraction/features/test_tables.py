"""Tables of features and their part files: complete or absent, exact, with damage detected."""

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
from headrace.extraction.features.feature_table import TableFile, columns_of, schema_of
from headrace.extraction.features.table_store import (
    PartFiles,
    TableOutput,
    TableStore,
    gather,
    write_tables,
)
from headrace.extraction.journal import Journal
from headrace.planning.chunks import Chunk
from headrace.records import from_dict
from sinks.made import disk_full_after


def comparable(result):
    """Return all fields of a row, with lists for arrays."""
    samples = {name: array.tolist() for name, array in vars(result.samples).items()}
    return {**vars(result), "samples": samples, "dtype": result.samples.features.dtype}


def read(path):
    table = TableFile(path)
    return [table.row(table.columns(listed.group), listed.place) for listed in table.listed()]


def write_features(path, rows, table_facts):
    """Write rows as the only table of a new folder, `path`."""
    [(written, chunk_ids)] = write_tables(path.parent, rows, table_facts)
    assert written == path
    return chunk_ids


def damage_of(path):
    """Return the error of a damaged table; None: footer and list are intact."""
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
def test_rows_survive_a_table(path, dtype, shape):
    kind = {"shape": shape, "dtype": dtype}
    table_facts = facts(**kind, clip_len=16, stride=2)
    rows = [row("a", 0, 40, **kind), failed("a", 40, 80, **kind)]
    rows += [row("b", 0, 0, **kind), row("b", 0, 10, **kind)]
    assert write_features(path, rows, table_facts) == [row.chunk_id for row in rows]
    assert TableFile(path).facts == table_facts
    assert list(map(comparable, read(path))) == list(map(comparable, rows))


def test_a_table_has_the_documented_columns(holds, path):
    write_features(path, [row("a", 0, 6)], facts())
    (values,) = pyarrow.parquet.read_table(path).to_pylist()
    holds("row.json", json.dumps(values, indent=1) + "\n")


def test_a_large_table_is_finished_and_the_next_one_started(tmp_path):
    rows = [row("a", start, start + 4) for start in range(0, 3 * 4096, 4)]
    written = list(write_tables(tmp_path, rows, facts(), table_bytes=20_000))
    assert names(tmp_path) == [f"features-{k:05d}.parquet" for k in range(2)]
    assert sorted(tmp_path.iterdir()) == [path for path, _ in written]
    assert [name for _, chunk_ids in written for name in chunk_ids] == [
        row.chunk_id for row in rows
    ]


def test_rows_are_consumed_only_as_needed(tmp_path):
    def rows():
        yield from (row("a", start, start + 4, shape=(1 << 20,)) for start in (0, 4))
        raise AssertionError("rows were consumed too early")

    tables = write_tables(tmp_path, rows(), facts(shape=(1 << 20,)), table_bytes=1)
    assert next(tables)[1] == ["a-00000000-00000004"]
    tables.close()
    assert names(tmp_path) == ["features-00000.parquet"]


def test_new_tables_are_numbered_after_existing_and_damaged_ones(tmp_path, write):
    (tmp_path / "features-00002.parquet").touch()
    (tmp_path / "features-00006.parquet.damaged").touch()
    assert [path.name for path, _ in write(row("a", 0, 4))] == ["features-00007.parquet"]


def test_an_interrupted_write_leaves_no_table(tmp_path):
    def rows():
        yield row("a", 0, 4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(write_tables(tmp_path, rows(), facts()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rows", [1, 40])
def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path, path, write, rows):
    """Detected on close, or before."""
    wide = [row("a", 0, 4000, shape=(64,))] * rows
    with disk_full_after(1000), pytest.raises(ConfigError) as caught:
        write(*wide, shape=(64,))
    assert str(caught.value) == (f"cannot write {path}: file too large; give a writable path")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_or_a_missing_folder_is_an_error(tmp_path, path):
    path.write_text("mine")
    with pytest.raises(ConfigError, match="already exists"):
        TableOutput(path, schema_of(facts()))
    assert path.read_text() == "mine"
    with pytest.raises(ConfigError, match=r"cannot write .*: no such file or directory; give"):
        list(write_tables(tmp_path / "none", [row("a", 0, 4)], facts()))


@pytest.mark.parametrize(
    "kind", [{"shape": (5,)}, {"shape": (2, 2)}, {"dtype": "float16"}], ids=str
)
def test_features_of_another_shape_or_dtype_are_refused(tmp_path, write, kind):
    with pytest.raises(ConfigError, match=r"/data/a.mp4 are float.* \[4\]$|choose a layer"):
        write(row("b", 0, 4), row("a", 0, 4, **kind))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [lambda whole: whole - 1, lambda whole: whole // 2, lambda _: 0])
def test_a_truncated_table_is_an_error(path, cut):
    write_features(path, [row("a", 0, 4)], facts())
    path.write_bytes(path.read_bytes()[: cut(path.stat().st_size)])
    message = damage_of(path)
    assert message.startswith(f"{path} is damaged: ")
    assert message.endswith("run the same extraction again to recompute its content")
    assert ("\n" in message, ".;" in message) == (False, False)


def test_a_flipped_bit_of_a_feature_is_detected_when_read(path):
    write_features(path, [row("a", 0, 4000)], facts())
    damage_features(path)
    assert damage_of(path) is None
    with pytest.raises(ConfigError, match=r"is damaged: .*CRC"):
        read(path)


def test_another_table_is_not_a_table_of_features(path):
    columns = columns_of([row("a", 0, 4)], facts())
    later = {"headrace": facts().text().replace('"version": 1', '"version": 2')}
    assert damage_of(path) == f"cannot read {path}: no such file or directory"
    foreign, remedy = "is not a table of features", "delete it and run the same extraction again"
    for table, message in [
        (pyarrow.table({"a": [1]}), f"{foreign}; move it elsewhere"),
        (columns.drop_columns(["worker"]), f"{foreign}: its columns differ; move it elsewhere"),
        (columns.replace_schema_metadata(later), f"its layout is version 2, not 1; {remedy}"),
    ]:
        pyarrow.parquet.write_table(table, path)
        assert message in damage_of(path)


def test_names_that_are_not_utf_8_are_escaped(path):
    name = VideoName(name="a\udcff", path="/data/a\udcff.mp4", content=None)
    write_features(path, [row("a", 0, 4, video=name)], facts())
    [result] = read(path)
    assert (result.video.name, result.video.path) == ("a\\udcff", "/data/a\\udcff.mp4")
    assert result.video.content is None


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
    """Return a function that gathers the part files into tables, and returns these."""

    def gathered():
        tables = TableStore(journal.folder, FACTS)
        gather(tables, parts, CHUNKS, lambda _: VideoName(name="a", path="/a.mp4", content=None))
        return tables

    return gathered


def outcomes_in(journal):
    """Return the outcomes of all chunks with a part file, from the journal."""
    done = journal.done(chunk.name for chunk in CHUNKS)
    return {
        name: from_dict(Outcome, entry.facts["outcome"], file=name) for name, entry in done.items()
    }


def test_part_files_and_their_table_have_equal_outcomes(journal, gathered, parts):
    expected = {
        chunk.name: Outcome(came=2, lost=lost, concealed=(chunk.start + 5,))
        for chunk, lost in zip(CHUNKS, LOST, strict=True)
    }
    assert outcomes_in(journal) == expected
    assert gathered().outcomes() == expected
    assert outcomes_in(journal) == {}
    assert not list(parts.path.iterdir())


def test_a_damaged_part_file_is_an_error_and_the_others_are_gathered(journal, gathered, parts):
    path = parts.path / CHUNKS[1].name
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"the first is {path}; run the same command again"):
        gathered()
    assert list(TableStore(journal.folder, FACTS).outcomes()) == [CHUNKS[0].name, CHUNKS[2].name]
    assert outcomes_in(journal) == {}


def test_part_files_that_a_table_holds_are_removed(journal, gathered, parts):
    tables = gathered()
    parts.write(result(0))  # as after a run that was killed before removing it
    parts.forget_all(tables.outcomes())
    assert outcomes_in(journal) == {}


def test_a_table_of_another_extraction_is_not_used(journal, gathered):
    gathered()
    other = TableStore(journal.folder, replace(FACTS, request="sha256:1"))
    assert other.outcomes() == {}
    other.set_aside_damaged()
    assert "is from another extraction" in other.damaged[0]
