"""Experiments in processes of their own: one that fails or dies ends no other."""

import os
import signal
import threading

import pytest

from bench.suite.fakes import DYING, FAILING, FAULTY, HANGING, HEAVY, MODEL, NEVER, WHOLE, measure
from headrace.bench.suite.suite_record import SUITE, read_suite
from headrace.bench.suite.suite_runner import SuiteObserver, prepare_suite
from headrace.bench.suite.suite_selection import Choice, SuiteConfig
from headrace.errors import ConfigError, MediaError

pytestmark = pytest.mark.usefixtures("forked_children")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def prepared(clip, tmp_path):
    """Return a function: experiments -> a suite of them."""

    video = clip(12)
    where = {"folder": tmp_path / "out", "command": ("headrace", "bench", "all")}

    def prepare(*experiments, choice=None, videos=(video,), **model):
        config = SuiteConfig(videos=videos, **model)
        return prepare_suite(experiments, config, choice or Choice(), measure=measure, **where)

    return prepare


def outcomes(record):
    return {each.experiment: each.outcome for each in record.chapters}


def test_one_that_fails_or_dies_is_named_and_the_others_go_on(prepared, tmp_path):
    begun, told, ended = [], [], []
    observer = SuiteObserver(
        on_begin=lambda planned, number, of: begun.append((planned.benchmark.name, number, of)),
        on_progress=lambda what, done, of: told.append((what, done, of)),
        on_end=lambda result, number, of: ended.append(result.outcome),
    )
    suite = prepared(HEAVY, FAILING, DYING, FAULTY, NEVER, WHOLE)
    record, is_interrupted = suite.hold(observer)
    assert not is_interrupted
    assert outcomes(record) == {
        **{"heavy": "measured", "never": "not possible", "whole": "measured"},
        **dict.fromkeys(("failing", "dying", "faulty"), "failed"),
    }
    whys = {each.experiment: each.why for each in record.chapters}
    assert whys["failing"] == "the third frame cannot be shown"
    assert whys["dying"] == "ended with exit code 9"
    assert whys["faulty"] == "ZeroDivisionError: one by none"
    assert record.chapters[3].last_lines[-1] == "ZeroDivisionError: one by none"
    assert record.chapters[1].last_lines == ()
    names = [name for name, _, _ in begun]
    assert names == ["failing", "dying", "faulty", "whole", "heavy"], "what takes much goes last"
    assert begun[0][1:] == (1, 5)
    assert ("sha256", 0, 3) in told
    assert ended == ["failed"] * 3 + ["measured"] * 2
    assert read_suite(tmp_path / "out") == record
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *(SUITE, "heavy.json", "heavy.csv", "heavy.html", "whole.json", "whole.csv", "whole.html")
    }


def test_the_same_again_measures_only_what_is_missing(prepared):
    first, _ = prepared(WHOLE, FAILING).hold(SuiteObserver())
    suite = prepared(WHOLE, FAILING, MODEL)
    assert [each.benchmark.name for each in suite.due] == ["failing", "model"]
    record, _ = suite.hold(SuiteObserver())
    taken = record.chapters[0]
    assert taken.is_taken
    assert taken.created == first.chapters[0].created
    assert outcomes(record)["model"] == "measured"


def test_ctrl_c_keeps_what_was_measured_and_begins_no_more(prepared, tmp_path):
    def interrupt(what, done, of):
        if what == "waiting":
            os.kill(os.getpid(), signal.SIGINT)

    suite = prepared(WHOLE, HANGING, MODEL)
    record, is_interrupted = suite.hold(SuiteObserver(on_progress=interrupt))
    assert is_interrupted
    left = dict.fromkeys(("hanging", "model"), "interrupted")
    assert outcomes(record) == {"whole": "measured", **left}
    assert [each.why for each in record.chapters] == [
        *(None, "it was interrupted", "it was not begun")
    ]
    assert read_suite(tmp_path / "out") == record
    assert threading.active_count() == 1
    due = prepared(WHOLE, HANGING, MODEL).due
    assert [each.benchmark.name for each in due] == ["hanging", "model"]


def test_a_video_that_cannot_be_read_is_told_before_anything(prepared, tmp_path):
    with pytest.raises(MediaError, match=r"gone\.mp4"):
        prepared(WHOLE, videos=(str(tmp_path / "gone.mp4"),))
    assert not (tmp_path / "out").exists()


def test_a_model_that_is_not_there_is_told_before_anything(prepared):
    with pytest.raises(ConfigError, match="no classification model 'resnt18'; did you mean resnet"):
        prepared(WHOLE, model_name="resnt18")


def test_a_damaged_record_of_a_survey_is_no_reason_to_forget_it(prepared, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / SUITE).write_text("{}")
    with pytest.raises(ConfigError, match=r"all\.json: provenance: field required; headrace bench"):
        prepared(WHOLE)
    assert prepared(WHOLE, choice=Choice(again=True)).due


def test_a_folder_that_cannot_be_made_is_said_before_measuring(prepared, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConfigError, match="out"):
        prepared(WHOLE).hold(SuiteObserver())
