"""bench_live: parts are measured alone, the others are kept; what is lost or disturbed is shown."""

from pathlib import Path
from typing import Any

import pytest

from benchmark_fakes import origin, overlap_case, overloaded, soaked
from benchmarks.bench_live import LiveResult, live, main
from benchmarks.live.figures import Quantiles
from benchmarks.live.overlap import Overlap
from benchmarks.live.own_cost import OwnCost, OwnCostScale, judged
from benchmarks.live.recovering import Recovering, Recovery
from benchmarks.live.rivals import Rivals, Shown, Streaming
from benchmarks.live.soak_summary import soak
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


AGES = Quantiles(count=99, p50=5.0, p95=7.0, worst=9.0)


def lines(**parts: object) -> list[str]:
    return live(LiveResult(provenance=origin(), **parts)).splitlines()


def test_own_cost_is_shown_with_its_definition_and_its_verdict() -> None:
    case = judged("none", OwnCostScale(rate=10), [[(10.0, 9.0)]], [[(12.5, 9.5)]])
    part = OwnCost(provenance=origin(rate=10), definition="What it is.", cases=(case,))
    shown = lines(own_cost=part)
    assert shown[2] == "| none | 2.50 |  | 0.50 | 2.00 | 2.50–2.50 |"
    assert shown[4] == "What it is. Below 1 ms in the median: **no**."


def test_a_loop_that_fell_behind_is_told() -> None:
    case = judged("none", OwnCostScale(rate=200), [[(10.0, 9.0)]], [[(12.5, 9.5)]])
    part = OwnCost(provenance=origin(rate=200), definition="What it is.", cases=(case,))
    assert "The bare loop fell behind at 1 frames: too slow here to tell." in lines(own_cost=part)


def test_overload_shows_ages_drops_by_cause_and_memory() -> None:
    shown = lines(overload=overloaded())
    assert shown[2:9] == [
        "| age of shown frames, p50 | 150 ms |",
        "| p95 | 170 ms |",
        "| oldest | 190 ms |",
        "| never above 200 ms | yes |",
        "| dropped, decode: overflow | 690 |",
        "| dropped, model: stale | 9 |",
        "| arrived = delivered + dropped + in flight | yes |",
    ]
    assert shown[-1].startswith("Other work took 1% of the CPU time. Some CPU, 2 cores")


def test_a_disturbed_part_says_so() -> None:
    shown = lines(overload=overloaded(others_share=0.4))
    assert "40% of the CPU time: disturbed, to be measured again." in shown[-1]


def test_a_gain_that_cores_bound_is_marked() -> None:
    cases = (
        overlap_case(sequential=3.0, threaded=2.0, cpu=3.0),
        overlap_case(sequential=3.0, threaded=2.0, cpu=4.0),
    )
    shown = lines(overlap=Overlap(provenance=origin(), cases=cases))
    stages = "| a case | 5.0 + 10.0 + 15.0 | 1.50 (1.50–1.50) | 2.00 |"
    assert shown[2:4] == [f"{stages} 2.00 | 0.75 |", f"{stages} 1.50 | 0.75* |"]
    assert "where the cores allow it: 0 of 1." in shown[5]


def test_a_stall_that_was_not_noticed_is_never() -> None:
    ours = Recovery(
        way="headrace",
        first_picture_seconds=0.5,
        noticed_seconds=(1.5, None),
        resumed_seconds=(0.1, 0.2),
        again_seconds=(1.0, 2.0),
    )
    shown = lines(rtsp=Recovering(provenance=origin(), found=(ours,)))
    assert shown[2:5] == [
        "| from SIGSTOP until it is noticed | 1.50 | never (1 of 2) | < 2 | **no** |",
        "| from SIGCONT to a picture | 0.15 | 0.20 |  |  |",
        "| from the restarted server to a picture, beyond the first one's time "
        "| 1.00 | 1.50 | < 2 | yes |",
    ]


def test_rivals_stand_beside_with_their_failures() -> None:
    ours = Shown(way="headrace", frames=99, per_second=30.0, age_ms=AGES)
    streaming = Streaming(
        model_ms=0.0,
        seconds=9.0,
        warm_up_seconds=1.0,
        shown=(ours, Shown(way="opencv_loop", failure="no module cv2")),
    )
    part = Rivals(
        provenance=origin(max_staleness="200ms"),
        keeping_up=streaming,
        overloaded=streaming.model_copy(update={"model_ms": 100.0}),
        recovery=(
            Recovery(way="headrace", first_picture_seconds=0.5, noticed_seconds=(1.5,)),
            Recovery(way="opencv_loop", failure="no module cv2"),
        ),
        left_out={"another": "it is not there"},
    )
    shown = lines(rivals=part)
    assert shown[2:4] == [
        "| **headrace** | 5 / 7 | 30.0 | 5 / 7 / 9 | 30.0 |",
        "| OpenCV, read and run in one loop | failed: no module cv2 |  "
        "| failed: no module cv2 |  |",
    ]
    assert shown[7] == "| **headrace** | 0.50 | 1.50 | never | never | never |"
    assert "Not measured: another: it is not there." in shown


def test_a_long_run_shows_its_verdicts() -> None:
    text = soak(soaked(threads=soaked().rss_bytes, outcome="failed"))
    assert "| came to its end | **no** |" in text
    assert "| latency, p99 | 40 ms |" in text
    assert "| its slope | +0.00 MiB a minute |" in text
    assert "| open files | 10–10 |" in text
    assert "Latency counts from arrival.\nOther work took 1% of the CPU time. Some CPU" in text
