"""The results that are kept can be read, and the pages say what they say."""

import re

import pytest

from benchmarks.bench_before import BeforeResult
from benchmarks.bench_correlation import CorrelationResult
from benchmarks.bench_extract_memory import MemoryResult
from benchmarks.bench_features import FeaturesResult
from benchmarks.bench_overhead import OverheadResult
from benchmarks.bench_plan import PlanResult
from benchmarks.bench_predictions import PredictionsResult
from benchmarks.bench_proxy import ProxyResult
from benchmarks.bench_remote import RemoteResult
from benchmarks.conformance.draws_record import DrawsResult
from benchmarks.conformance.verdict import ConformanceResult
from benchmarks.cores.record import CoresResult
from benchmarks.live.record import LiveResult
from benchmarks.live.soaked import SoakResult
from benchmarks.pages import main
from benchmarks.record import RESULTS, ROOT, Result, TimedResult, command
from headrace.bench.cameras import CamerasRecord

KEPT: dict[str, type[Result]] = {
    "before": BeforeResult,
    "camera_windows": TimedResult,
    "conformance": ConformanceResult,
    "cores": CoresResult,
    "correlation": CorrelationResult,
    "draws": DrawsResult,
    "extract": TimedResult,
    "extract_memory": MemoryResult,
    "features": FeaturesResult,
    "first_batch": TimedResult,
    "live": LiveResult,
    "observe": TimedResult,
    "overhead": OverheadResult,
    "plan": PlanResult,
    "predictions": PredictionsResult,
    "proxy": ProxyResult,
    "random_clips": TimedResult,
    "random_frames": TimedResult,
    "remote": RemoteResult,
    "run": TimedResult,
    "scaling": TimedResult,
    "sequential": TimedResult,
    "soak": SoakResult,
    "startup": TimedResult,
}
CAMERAS = ("cameras", "cameras_speed")


def test_every_result_has_its_type() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} == {*KEPT, *CAMERAS}


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_result_can_be_read_and_says_where_it_comes_from(name: str) -> None:
    found = KEPT[name].load(RESULTS / f"{name}.json")
    assert found.provenance.commit
    assert found.provenance.machine.usable_cores == 2


@pytest.mark.parametrize("name", [*KEPT, *CAMERAS])
def test_a_kept_result_names_no_path_of_a_machine(name: str) -> None:
    text = (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    assert not re.search(r'"/\w', text)


def test_a_command_is_shown_from_the_root_of_the_checkout(monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", [f"{ROOT}/benchmarks/x.py", "--out", "/data/x.json", "--quick"])
    assert command() == ("benchmarks/x.py", "--out", "x.json", "--quick")


@pytest.mark.parametrize("name", CAMERAS)
def test_a_kept_record_of_cameras_can_be_read(name: str) -> None:
    assert CamerasRecord.model_validate_json((RESULTS / f"{name}.json").read_bytes()).runs


def test_the_pages_say_what_the_results_say() -> None:
    main(["--check"])
