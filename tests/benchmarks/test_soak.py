"""Tests of benchmarks/soak.py: a real run is watched, with its page and a browser's requests."""

from pathlib import Path

import pytest

from benchmarks.live.soaked import SoakResult
from benchmarks.soak import main

SHORT = ["--minutes", "0.05", "--sample-seconds", "0.2", "--warm-up", "0", "--clip-seconds", "4"]


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the clip is made, once."""
    return tmp_path_factory.mktemp("media")


def test_a_run_is_watched_to_its_end(
    media: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "soak.json"
    main([*SHORT, "--source", "file", "--media", str(media), "--out", str(out)])
    found = SoakResult.load(out)
    assert found.outcome == "complete"
    assert found.is_conserved
    assert found.arrived > 0
    assert found.pictures > 0
    assert found.refused == 0
    assert found.latency_ms is not None
    assert found.latency_ms.base == "schedule"
    assert len(found.rss_bytes.values) == len(found.threads.values) > 1
    assert found.provenance.configuration["source"] == "file"
    assert "conserved: yes" in capsys.readouterr().out


def test_a_run_that_fails_says_why(media: Path, tmp_path: Path) -> None:
    words = [*SHORT, "--source", "file", "--media", str(media), "--model", "no_such_model"]
    with pytest.raises(SystemExit, match=r"no page: headrace: .*no_such_model"):
        main([*words, "--out", str(tmp_path / "soak.json")])
    assert not (tmp_path / "soak.json").exists()
