"""Parts: results of chunks on the disk, each whole or known to be damaged, until a table has it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from extraction.features.feature_rows import facts
from headrace.errors import ConfigError
from headrace.extraction.extraction_options import OutputSpec, RequestedVideo
from headrace.extraction.features.feature_result import (
    ChunkResult,
    Lost,
    Outcome,
    Samples,
    VideoName,
)
from headrace.extraction.features.table_store import PartFiles, TableStore, gather
from headrace.extraction.journal import Journal
from headrace.planning.chunks import Chunk
from headrace.records import from_dict

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


def test_a_part_that_is_damaged_is_named_removed_and_the_others_are_gathered(
    journal, gathered, parts
):
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
