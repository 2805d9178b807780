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
"""More than a parser that calls itself can read."""


@pytest.fixture
def unheld(tmp_path):
    """The journal of a folder that a run has used, and no longer holds."""
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


def test_a_chunk_is_done_when_its_files_are_there(journal):
    journal.write("00000-00000", entry(journal, one="1", two="22"))
    found = journal.done(["00000-00000", "00000-00001"])
    assert found == {"00000-00000": JournalEntry(files=(("one", 1), ("two", 2)), facts={"n": 1})}


@pytest.mark.parametrize("content", [None, "2"])
def test_a_chunk_whose_file_is_gone_or_cut_is_not_done(journal, content):
    journal.write("00000-00000", entry(journal, one="1", two="22"))
    (journal.folder / "two").unlink()
    if content is not None:
        (journal.folder / "two").write_text(content)
    assert journal.done(["00000-00000"]) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": [["one"]]}', '{"files": 3}', NESTED])
def test_an_entry_that_cannot_be_read_is_not_done(journal, text):
    journal.write("00000-00000", entry(journal, one="1"))
    (journal.folder / HOME / "chunks" / "00000-00000.json").write_text(text)
    assert journal.done(["00000-00000"]) == {}


@pytest.mark.parametrize("name", ["../mine", "{folder}/../mine"])
def test_an_entry_that_names_a_file_outside_is_not_done_and_removes_nothing(journal, name):
    mine = journal.folder.parent / "mine"
    mine.write_text("12")
    name = name.format(folder=journal.folder)
    journal.write("00000-00000", JournalEntry(files=((name, 2),), facts={}))
    assert journal.done(["00000-00000"]) == {}
    journal.forget("00000-00000")
    assert mine.exists()


def test_one_run_at_a_time_has_a_folder(journal):
    with pytest.raises(ConfigError, match="another run is writing to"), journal.held(REQUEST):
        pass


def test_what_was_being_written_is_swept_away(unheld):
    partial_of(unheld.folder / "one.png").write_text("")
    (unheld.folder / "two.png").write_text("")
    with unheld.held(REQUEST):
        assert sorted(path.name for path in unheld.folder.iterdir()) == [HOME, "two.png"]


def test_a_video_that_can_be_opened_by_now_is_no_other_request(tmp_path):
    journal = Journal(tmp_path / "out")
    with journal.held(replace(REQUEST, videos=(A, replace(B, size=None, mtime_ns=None)))):
        pass
    with journal.held(REQUEST):
        assert journal.request() == REQUEST


WHY = "working on it crashed"


@pytest.fixture
def quarantine(tmp_path):
    found = DeadLetters(tmp_path / "quarantine.json", "av 1")
    found.add("a", WHY)
    found.add("b", "memory ran out")
    return found


def test_what_ended_its_workers_is_left_out_by_the_same_decoder(quarantine):
    assert quarantine.reasons(retry=False) == {
        "a": f"{WHY}; use --retry to try it again",
        "b": "memory ran out; use --retry to try it again",
    }
    other = DeadLetters(quarantine.path, "av 2")
    assert other.reasons(retry=False) == {}
    other.add("b", "memory ran out")
    assert list(other.reasons(retry=False)) == ["b"]


def test_what_is_tried_again_is_forgotten(quarantine):
    assert quarantine.reasons(retry=True) == {}
    assert quarantine.reasons(retry=False) == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 3}', '{"a": {"reason": "x"}}', NESTED])
def test_a_quarantine_that_cannot_be_read_leaves_nothing_out(quarantine, text):
    quarantine.path.write_text(text)
    assert quarantine.reasons(retry=False) == {}
