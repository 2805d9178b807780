"""soak: a real run is watched, and judged."""

import pytest

from benchmark_fakes import soaked
from benchmarks.live.figures import Series
from benchmarks.soak import BENCHMARK, SoakResult

SHORT = ["--minutes", "0.05", "--sample-seconds", "0.2", "--warm-up", "0", "--clip-seconds", "4"]


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    """Where the clip is made, once."""
    return tmp_path_factory.mktemp("media")


def test_a_run_is_watched_to_its_end(media, tmp_path, capsys):
    out = tmp_path / "soak.json"
    BENCHMARK.main([*SHORT, "--source", "file", "--media", str(media), "--out", str(out)])
    found = SoakResult.load(out)
    assert found.outcome == "complete"
    assert found.is_conserved
    assert found.arrived > 0
    assert found.pictures > 0
    assert found.refused == 0
    assert found.latency_ms.base == "schedule"
    assert len(found.rss_bytes.values) == len(found.threads.values) > 1
    assert found.provenance.configuration["source"] == "file"
    assert "all of it: " in capsys.readouterr().out


def test_a_run_that_fails_says_why(media, tmp_path):
    words = [*SHORT, "--source", "file", "--media", str(media), "--model", "no_such_model"]
    with pytest.raises(SystemExit, match=r"no page: headrace: .*no_such_model"):
        BENCHMARK.main([*words, "--out", str(tmp_path / "soak.json")])
    assert not (tmp_path / "soak.json").exists()


AT = (0.0, 100.0, 200.0, 300.0, 400.0)


def test_a_run_that_stays_as_it_is_is_right():
    assert soaked().is_right


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "failed"},
        {"delivered": 1},
        {"rss_bytes": Series(at_seconds=AT, values=(1e9, 1e9, 1.1e9, 1.2e9, 1.3e9))},
        {"threads": Series(at_seconds=AT, values=(9, 9, 9, 9, 10))},
        {"open_files": Series(at_seconds=AT, values=(9, 9, 9, 9, 10))},
        {"warm_up_seconds": 500.0},
    ],
)
def test_what_grows_or_is_lost_is_not(change):
    assert not soaked(**change).is_right


def test_the_record_of_the_steps_may_grow():
    growing = Series(at_seconds=AT, values=(1e9, 1e9, 1.005e9, 1.010e9, 1.015e9))
    assert soaked(rss_bytes=growing, frames_per_second=1000.0).is_memory_flat
    assert not soaked(rss_bytes=growing, frames_per_second=1.0).is_memory_flat
