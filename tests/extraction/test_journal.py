"""The journal of an output folder, and the quarantine in it."""

from dataclasses import replace

import pytest

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError
from headrace.extraction.extraction_options import OutputSpec, RequestedVideo
from headrace.extraction.journal import HOME, DeadLetters, Journal, JournalEntry

A = RequestedVideo(name="a", path="/data/a.mp4", size=10, mtime_ns=1)
B = RequestedVideo(name="b", path="/data/b.mp4", size=20, mtime_ns=2)
REQUEST = OutputSpec(kind="frames", asked={"frames": "every 3", "quality": None}, videos=(A, B))

NESTED = "[" * 99_999
"""Deeper than a recursive parser can read."""


@pytest.fixture
def unheld(tmp_path):
    """Return the journal of a folder after a run."""
    journal = Journal(tmp_path / "out")
    with journal.held(REQUEST):
        pass
    return journal


@pytest.fixture
def journal(unheld):
    with unheld.held(REQUEST):
        yield unheld


def entry(journal, **files):
    for name, content in files.items():
        (journal.folder / name).write_text(content)
    sizes = tuple((name, len(content)) for name, content in files.items())
    return JournalEntry(files=sizes, facts={"n": 1})


def test_a_chunk_is_done_when_its_files_exist(journal):
    journal.write("00000-00000", entry(journal, one="1", two="22"))
    done = journal.done(["00000-00000", "00000-00001"])
    assert done == {"00000-00000": JournalEntry(files=(("one", 1), ("two", 2)), facts={"n": 1})}


@pytest.mark.parametrize("content", [None, "2"])
def test_a_chunk_with_a_missing_or_truncated_file_is_not_done(journal, content):
    journal.write("00000-00000", entry(journal, one="1", two="22"))
    (journal.folder / "two").unlink()
    if content is not None:
        (journal.folder / "two").write_text(content)
    assert journal.done(["00000-00000"]) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": [["one"]]}', '{"files": 3}', NESTED])
def test_an_unreadable_entry_is_not_done(journal, text):
    journal.write("00000-00000", entry(journal, one="1"))
    (journal.folder / HOME / "chunks" / "00000-00000.json").write_text(text)
    assert journal.done(["00000-00000"]) == {}


@pytest.mark.parametrize("name", ["../outside", "{folder}/../outside"])
def test_an_entry_with_a_file_outside_the_folder_is_not_done_and_removes_nothing(journal, name):
    outside = journal.folder.parent / "outside"
    outside.write_text("12")
    name = name.format(folder=journal.folder)
    journal.write("00000-00000", JournalEntry(files=((name, 2),), facts={}))
    assert journal.done(["00000-00000"]) == {}
    journal.forget("00000-00000")
    assert outside.exists()


def test_only_one_run_at_a_time_owns_a_folder(journal):
    with pytest.raises(ConfigError, match="another run is writing to"), journal.held(REQUEST):
        pass


def test_partial_files_of_an_earlier_run_are_removed(unheld):
    partial_of(unheld.folder / "one.png").write_text("")
    (unheld.folder / "two.png").write_text("")
    with unheld.held(REQUEST):
        assert sorted(path.name for path in unheld.folder.iterdir()) == [HOME, "two.png"]


def test_a_video_that_can_be_opened_later_does_not_change_the_request(tmp_path):
    journal = Journal(tmp_path / "out")
    with journal.held(replace(REQUEST, videos=(A, replace(B, size=None, mtime_ns=None)))):
        pass
    with journal.held(REQUEST):
        assert journal.request() == REQUEST


REASON = "working on it crashed"


@pytest.fixture
def quarantine(tmp_path):
    letters = DeadLetters(tmp_path / "quarantine.json", "av 1")
    letters.add("a", REASON)
    letters.add("b", "memory ran out")
    return letters


def test_chunks_that_ended_workers_are_skipped_with_the_same_decoder(quarantine):
    assert quarantine.reasons(retry=False) == {
        "a": f"{REASON}; use --retry to try it again",
        "b": "memory ran out; use --retry to try it again",
    }
    other = DeadLetters(quarantine.path, "av 2")
    assert other.reasons(retry=False) == {}
    other.add("b", "memory ran out")
    assert list(other.reasons(retry=False)) == ["b"]


def test_a_retry_clears_the_quarantine(quarantine):
    assert quarantine.reasons(retry=True) == {}
    assert quarantine.reasons(retry=False) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 3}', '{"a": {"reason": "x"}}', NESTED])
def test_an_unreadable_quarantine_skips_nothing(quarantine, text):
    quarantine.path.write_text(text)
    assert quarantine.reasons(retry=False) == {}
