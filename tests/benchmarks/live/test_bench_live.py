"""bench_live: parts are measured alone, the others are kept; what is lost or disturbed is shown."""

from pathlib import Path
from typing import Any

import pytest

from benchmark_fakes import overlap_case
from benchmarks.bench_live import LiveResult, main
from benchmarks.worker import WorkerError

OWN_COST = {
    "bare": [[(10.0, 9.0)]],
    "pipeline": [[(10.5, 9.5)]],
    "meter": {"wall_seconds": 1.0, "cpu_seconds": 1.0, "others_cpu_seconds": 1.0},
}
PAIR = overlap_case(sequential=2.0, threaded=1.0, cpu=2.0).pairs[0]
OVERLAP = {"pairs": [PAIR.model_dump()], "meter": OWN_COST["meter"]}


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command line of a quick run whose clip is there."""
    clip = tmp_path / "live" / "numbered-10s.mp4"
    clip.parent.mkdir()
    clip.touch()
    return ["--quick", "--media", str(tmp_path), "--out", str(tmp_path / "live.json")]


def test_one_part_is_measured_and_the_others_are_kept(words: list[str], tmp_path: Path) -> None:
    main([*words, "--only", "own_cost"], lambda asked: OWN_COST)
    main([*words, "--only", "overlap"], lambda asked: OVERLAP)
    found = LiveResult.load(tmp_path / "live.json")
    assert found.own_cost is not None
    assert found.own_cost.others_share == 0.5
    assert found.overlap is not None
    assert found.overlap.cases[0].gains == [2.0]
    assert found.overload is found.rtsp is found.rivals is None
    assert found.provenance.configuration == {"quick": True, "only": "overlap"}


def test_a_part_that_fails_is_named_and_the_next_one_is_measured(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(asked: Any) -> dict[str, Any]:
        if asked["case"] == "live.own_cost":
            raise WorkerError("no such model")
        return OVERLAP

    with pytest.raises(SystemExit, match="not measured: own_cost"):
        main([*words, "--only", "own_cost", "overlap"], ask)
    assert "own_cost: failed: no such model" in capsys.readouterr().out
    found = LiveResult.load(tmp_path / "live.json")
    assert found.own_cost is None
    assert found.overlap is not None


def test_a_result_of_another_layout_is_left_alone(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "live.json").write_text('{"speed": 1}', "utf-8")
    with pytest.raises(SystemExit, match="it has another layout; name another --out"):
        main([*words, "--only", "own_cost"], lambda asked: OWN_COST)
    assert (tmp_path / "live.json").read_text("utf-8") == '{"speed": 1}'


def test_a_part_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "speed"])
    assert "invalid choice: 'speed'" in capsys.readouterr().err
