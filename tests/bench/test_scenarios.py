"""Findings of the offline and real-time scenarios."""

from bench.records import local_provenance
from headrace.bench.scenarios import SCENARIOS, ScenarioRepetition, ScenariosRecord


def turn(mode, fps, **figures):
    usual = {
        **{"seconds": 12, "cpu_seconds": 12, "others_cpu_seconds": 0, "per_second": (30, 30)},
        **{"results": 300, "delivered": 300, "dropped": {}, "service_p50": 8},
        **{"work_ms": {"decode": 2, "model": 6}},
        **{"latency_p50": None, "latency_p95": None, "jitter": 3, "fps_cv": 0.1},
    }
    if mode == "realtime":
        usual |= {"latency_p50": 10, "latency_p95": 20, "jitter": 2, "fps_cv": 0.01}
    return ScenarioRepetition(mode=mode, fps=fps, **{**usual, **figures})


def recorded(*turns):
    return ScenariosRecord(
        provenance=local_provenance(), frame_rate=30, model_seconds=0.5, turns=turns
    )


USUAL = (turn("offline", 90), turn("realtime", 30), turn("offline", 94), turn("realtime", 30))
SLOW = {"delivered": 75, "dropped": {"overflow at decode": 25}}
MOMENTS = {"delivered": 297, "dropped": {"overflow at decode": 3}}


def steadiness(live, offline):
    return recorded(turn("offline", 90, fps_cv=offline), turn("realtime", 30, fps_cv=live))


def test_findings_on_scenarios(check_pages):
    busy = turn("realtime", 21, **SLOW, others_cpu_seconds=24)
    cases = {
        "nothing is dropped": recorded(*USUAL),
        "too slow": recorded(turn("offline", 25), turn("realtime", 21, **SLOW)),
        "too slow in moments": recorded(turn("offline", 53), turn("realtime", 29.7, **MOMENTS)),
        "too slow while other programs ran": recorded(turn("offline", 25), busy),
        "steady in both": steadiness(0.01, 0.02),
        "steady offline": steadiness(0.2, 0.02),
        "steady in neither": steadiness(0.2, 0.3),
        "too short for an FPS CV": steadiness(None, 0.3),
    }
    check_pages(SCENARIOS, cases)
