"""soak: a real run is sampled and judged."""

import pytest

from benchmark_fakes import soaked
from benchmarks.live.figures import Series
from benchmarks.soak import BENCHMARK, SoakResult

SHORT = ["--minutes", "0.05", "--sample-seconds", "0.2", "--warm-up", "0", "--clip-seconds", "4"]


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    """Return the folder of the clip, which is created once."""
    return tmp_path_factory.mktemp("media")


@pytest.mark.slow
def test_a_run_is_sampled_to_its_end(media, tmp_path, capsys):
    out = tmp_path / "soak.json"
    BENCHMARK.main([*SHORT, "--source", "file", "--media", str(media), "--out", str(out)])
    result = SoakResult.load(out)
    assert result.outcome == "complete"
    assert result.is_conserved
    assert result.arrived > 0
    assert result.pictures > 0
    assert result.refused == 0
    assert result.latency_ms.base == "schedule"
    assert len(result.rss_bytes.values) == len(result.threads.values) > 1
    assert result.provenance.configuration["source"] == "file"
    assert "all checks passed: " in capsys.readouterr().out


@pytest.mark.slow
def test_a_failed_run_exits_with_its_error(media, tmp_path):
    words = [*SHORT, "--source", "file", "--media", str(media), "--model", "no_such_model"]
    with pytest.raises(SystemExit, match=r"no page: headrace: .*no_such_model"):
        BENCHMARK.main([*words, "--out", str(tmp_path / "soak.json")])
    assert not (tmp_path / "soak.json").exists()


AT = (0.0, 100.0, 200.0, 300.0, 400.0)


def test_a_constant_run_passes_all_checks():
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
def test_growth_and_losses_fail_the_checks(change):
    assert not soaked(**change).is_right


def test_memory_may_grow_by_the_step_record():
    growing = Series(at_seconds=AT, values=(1e9, 1e9, 1.005e9, 1.010e9, 1.015e9))
    assert soaked(rss_bytes=growing, frames_per_second=1000.0).is_memory_flat
    assert not soaked(rss_bytes=growing, frames_per_second=1.0).is_memory_flat
