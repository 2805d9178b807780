"""Each benchmark runs in its own process; a failure does not end the others."""

import os
import signal
import threading

import pytest

from bench.suite.fakes import DYING, FAILING, FAULTY, HANGING, HEAVY, MODEL, NEVER, WHOLE, measure
from headrace.bench.suite.suite_runner import SuiteObserver, prepare_suite
from headrace.bench.suite.suite_selection import SUITE, Choice, SuiteConfig, read_suite
from headrace.errors import ConfigError, MediaError

pytestmark = pytest.mark.usefixtures("forked_children")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def prepared(clip, tmp_path):
    """Return a function: benchmarks -> suite of them."""

    video = clip(12)
    paths = {"folder": tmp_path / "out", "command": ("headrace", "bench", "all")}

    def prepare(*benchmarks, choice=None, videos=(video,), **model):
        config = SuiteConfig(videos=videos, **model)
        return prepare_suite(benchmarks, config, choice or Choice(), measure=measure, **paths)

    return prepare


def outcomes(record):
    return {outcome.experiment: outcome.outcome for outcome in record.chapters}


def test_a_failed_benchmark_is_reported_and_the_others_continue(prepared, tmp_path):
    begun, progress, ended = [], [], []
    observer = SuiteObserver(
        on_begin=lambda planned, number, of: begun.append((planned.benchmark.name, number, of)),
        on_progress=lambda what, done, of: progress.append((what, done, of)),
        on_end=lambda result, number, of: ended.append(result.outcome),
    )
    suite = prepared(HEAVY, FAILING, DYING, FAULTY, NEVER, WHOLE)
    record, is_interrupted = suite.run(observer)
    assert not is_interrupted
    assert outcomes(record) == {
        **{"heavy": "measured", "never": "not possible", "whole": "measured"},
        **dict.fromkeys(("failing", "dying", "faulty"), "failed"),
    }
    whys = {outcome.experiment: outcome.why for outcome in record.chapters}
    assert whys["failing"] == "the third frame cannot be shown"
    assert whys["dying"] == "ended with exit code 9"
    assert whys["faulty"] == "ZeroDivisionError: one by none"
    assert record.chapters[3].last_lines[-1] == "ZeroDivisionError: one by none"
    assert record.chapters[1].last_lines == ()
    names = [name for name, _, _ in begun]
    assert names == ["failing", "dying", "faulty", "whole", "heavy"], "the heavy one is last"
    assert begun[0][1:] == (1, 5)
    assert ("sha256", 0, 3) in progress
    assert ended == ["failed"] * 3 + ["measured"] * 2
    assert read_suite(tmp_path / "out") == record
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *(SUITE, "heavy.json", "heavy.csv", "heavy.html", "whole.json", "whole.csv", "whole.html")
    }


def test_a_second_run_measures_only_missing_benchmarks(prepared):
    first, _ = prepared(WHOLE, FAILING).run(SuiteObserver())
    suite = prepared(WHOLE, FAILING, MODEL)
    assert [planned.benchmark.name for planned in suite.due] == ["failing", "model"]
    record, _ = suite.run(SuiteObserver())
    taken = record.chapters[0]
    assert taken.is_taken
    assert taken.created == first.chapters[0].created
    assert outcomes(record)["model"] == "measured"


def test_ctrl_c_keeps_results_and_starts_no_more(prepared, tmp_path):
    def interrupt(what, done, of):
        if what == "waiting":
            os.kill(os.getpid(), signal.SIGINT)

    suite = prepared(WHOLE, HANGING, MODEL)
    record, is_interrupted = suite.run(SuiteObserver(on_progress=interrupt))
    assert is_interrupted
    left = dict.fromkeys(("hanging", "model"), "interrupted")
    assert outcomes(record) == {"whole": "measured", **left}
    assert [outcome.why for outcome in record.chapters] == [
        *(None, "it was interrupted", "it was not started")
    ]
    assert read_suite(tmp_path / "out") == record
    assert threading.active_count() == 1
    due = prepared(WHOLE, HANGING, MODEL).due
    assert [planned.benchmark.name for planned in due] == ["hanging", "model"]


def test_an_unreadable_video_is_refused_first(prepared, tmp_path):
    with pytest.raises(MediaError, match=r"gone\.mp4"):
        prepared(WHOLE, videos=(str(tmp_path / "gone.mp4"),))
    assert not (tmp_path / "out").exists()


def test_an_unknown_model_is_refused_first(prepared):
    with pytest.raises(ConfigError, match="no classification model 'resnt18'; did you mean resnet"):
        prepared(WHOLE, model_name="resnt18")


def test_a_damaged_record_is_replaced_only_on_request(prepared, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / SUITE).write_text("{}")
    with pytest.raises(ConfigError, match=r"all\.json: provenance: field required; headrace bench"):
        prepared(WHOLE)
    assert prepared(WHOLE, choice=Choice(again=True)).due


def test_a_folder_that_cannot_be_created_is_refused_before_measuring(prepared, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConfigError, match="out"):
        prepared(WHOLE).run(SuiteObserver())
