"""`headrace bench overlap`, `modes` and `live` on a real video, as a user meets them."""

import json
from fractions import Fraction

import pytest

from headrace.bench.live_capacity import LiveRecord
from headrace.bench.overlap import OverlapRecord
from headrace.bench.scenarios import ModesRecord
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    """120 frames a second, so that the fewest samples of a p95 come within one."""
    folder = tmp_path_factory.mktemp("videos")
    return write_clip(folder / "good", SynthClip(num_frames=60, frame_rate=Fraction(120)))


def test_overlap_times_three_ways_on_the_same_frames(call, video, tmp_path):
    out = tmp_path / "out"
    quick = ("--seconds", 0.1, "--repeats", 1)
    code, said, err = call("bench", "overlap", video, *quick, "--out", out)
    assert (code, err) == (0, "")
    rows = [line.split() for line in said.splitlines()]
    heads = next(k for k, row in enumerate(rows) if row[:2] == ["way", "frames/s"])
    ways = ["sequential", "threads", "processes"]
    assert [row[0] for row in rows[heads + 1 : heads + 4]] == ways
    assert "sum ÷ max" in said
    record = OverlapRecord.model_validate_json((out / "overlap.json").read_text())
    assert [turn.way for turn in record.turns] == ways * 2
    assert [bool(turn.latency_ms) for turn in record.turns] == [False] * 3 + [True] * 3
    assert {len(turn.latency_ms) for turn in record.turns} == {0, record.frames}
    assert record.compared == record.frames + record.settling
    assert record.processes_seconds > 0
    assert "chart-latency" in (out / "overlap.html").read_text()


def test_modes_measures_both_in_turns(call, video, tmp_path):
    out = tmp_path / "out"
    quick = ("--seconds", 2, "--repeats", 1)
    code, said, err = call("bench", "modes", video, *quick, "--out", out, "--json")
    assert (code, err) == (0, "")
    record = ModesRecord.model_validate_json(said)
    assert record.frame_rate == 120
    offline, live = record.turns
    assert (offline.mode, live.mode) == ("offline", "realtime")
    assert offline.latency_p50 is None
    assert offline.service_p50 > 0
    assert offline.dropped == {}, "offline nothing is ever dropped"
    assert live.latency_p50 > 0
    assert json.loads((out / "modes.json").read_text()) == json.loads(said)
    assert "chart-frame-rate" in (out / "modes.html").read_text()


def test_live_says_so_where_a_promise_cannot_be_kept(call, video, tmp_path):
    """No frame is shown within a microsecond, on whatever machine."""
    out = tmp_path / "out"
    hopeless = ("--p95-ms", 0.001, "--seconds", 1, "--steps", 1)
    code, said, err = call("bench", "live", video, *hopeless, "--out", out)
    assert (code, err) == (0, "")
    assert "Time: at most 1 step of 2.0 s" in said
    said = " ".join(said.split())
    assert "No load that was tried keeps the promise, down to 120 frames/s" in said
    record = LiveRecord.model_validate_json((out / "live.json").read_text())
    [step] = record.steps
    assert (step.level, step.offered_fps) == (120, 120)
    assert step.broken_by
    assert "chart-drops" in (out / "live.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("modes", "VIDEO", "VIDEO"), "bench modes takes one video, got 2"),
        (("live", "VIDEO", "VIDEO"), "bench live takes one video, got 2"),
        (("live", "VIDEO", "--p95-ms", 0), "p95_ms must be > 0, got 0.0"),
        (("live", "gone.mp4"), "gone.mp4"),
        (("overlap", "gone.mp4"), "gone.mp4"),
        (("overlap", "VIDEO", "--model-name", "resnet"), "resnet"),
        (("modes", "VIDEO", "--model-name", "r3d_18"), "r3d_18"),
        (("overlap", "VIDEO", "--weights", "gone.pth"), "gone.pth"),
    ],
)
def test_what_cannot_be_done_is_one_line(call, video, tmp_path, arguments, said):
    typed = [video if each == "VIDEO" else each for each in arguments]
    code, _, err = call("bench", *typed, "--out", tmp_path / "out", "--json")
    assert code == (1 if "gone.mp4" in said else 2)
    assert said in err
    assert err.count("\n") == 1


def test_what_is_empty_is_one_line(call, tmp_path):
    empty = tmp_path / "empty.mp4"
    empty.write_bytes(b"")
    for name in ("overlap", "modes", "live"):
        code, _, err = call("bench", name, empty, "--out", tmp_path / "out", "--json")
        assert (code, err.count("\n")) == (1, 1)
        assert "empty.mp4" in err
