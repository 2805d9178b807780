"""What a folder tells of an extraction beside its tables: what failed, and whether it has ended."""

import json

import pytest

from extraction.features.feature_rows import facts, row
from headrace import read_features
from headrace.extraction.features.table import write_tables
from headrace.extraction.request import AskedVideo, Request

VIDEOS = tuple(
    AskedVideo(name=name, path=f"/data/{name}.mp4", size=1, mtime_ns=1)
    for name in ("z", "a", "crashes", "hangs\udcff")
)


@pytest.fixture
def folder(tmp_path):
    """As a run leaves it: `z` and `a` done but for a chunk of `z`, the others failed."""
    rows = [row("z", 0, 8, chunk_id="00000-00000000-00000008"), row("a", 0, 4, chunk_id="00001-")]
    list(write_tables(tmp_path, rows, facts()))
    home = tmp_path / ".extraction"
    (home / "parts").mkdir(parents=True)
    request = Request(kind="features", asked={}, videos=VIDEOS)
    (home / "request.json").write_text(request.text())
    chunks = ["00000-00000008-00000016", "00000-00000016-00000024", "00002-00000000-00000008"]
    reasons = {
        **dict.fromkeys(chunks, "it crashed"),
        "00003-00000000-00000008": "it hung",
        "00009-00000000-00000008": "of another request",
        "nonsense": "no chunk",
    }
    kept = {chunk: {"reason": reason, "decoder": "1"} for chunk, reason in reasons.items()}
    (home / "quarantine.json").write_text(json.dumps(kept))
    session = {"outcome": "complete", "outputs": ["features-00000.parquet", "report.html"]}
    (tmp_path / "session.json").write_text(json.dumps(session))
    return tmp_path


def test_videos_that_were_asked_for_are_there_in_their_order_and_say_what_failed(folder):
    features = read_features(folder)
    assert {name: (len(found), found.errors) for name, found in features.items()} == {
        "z": (4, ("it crashed",)),
        "a": (2, ()),
        "crashes": (0, ("it crashed",)),
        "hangs\\udcff": (0, ("it hung",)),
    }
    assert list(features) == ["z", "a", "crashes", "hangs\\udcff"]
    assert features["crashes"].path == "/data/crashes.mp4"
    assert features["crashes"].features.shape == (0, 4)
    assert features.is_ended is True


def interrupted(folder):
    (folder / "session.json").write_text(json.dumps({"outcome": "interrupted", "outputs": []}))


def killed(folder):
    (folder / ".extraction" / "parts" / "00001-00000004-00000008").touch()


def killed_before_its_record(folder):
    killed(folder)
    (folder / "session.json").unlink()


def robbed_of_a_table(folder):
    list(write_tables(folder, [row("a", 0, 4)], facts()))
    (folder / "features-00000.parquet").unlink()


@pytest.mark.parametrize("end", [interrupted, killed, killed_before_its_record, robbed_of_a_table])
def test_an_extraction_that_was_ended_or_whose_table_is_gone_has_not_ended(folder, end):
    end(folder)
    assert read_features(folder).is_ended is False


@pytest.mark.parametrize("text", ["", "[]", '"x"', "{}", '{"outcome": 1, "outputs": 2}'])
def test_what_cannot_be_read_is_not_known(folder, text):
    (folder / "session.json").write_text(text)
    assert read_features(folder).is_ended is False
    (folder / ".extraction" / "quarantine.json").write_text(text)
    assert read_features(folder)["z"].errors == ()
    (folder / ".extraction" / "request.json").write_text(text)
    assert read_features(folder).is_ended is None


def test_tables_that_were_copied_alone_are_read(folder, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    (folder / "features-00000.parquet").rename(alone / "features-00000.parquet")
    features = read_features(alone)
    assert list(features) == ["z", "a"]
    assert features.is_ended is None
