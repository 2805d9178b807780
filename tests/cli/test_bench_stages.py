"""`headrace bench stages` and `prefetch` on a real video, as a user meets them."""

import gzip
import json

import pytest

from headrace.bench.prefetch_record import PrefetchRecord
from headrace.bench.stages import StagesRecord
from headrace.testing.synth import SynthClip, write_clip

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("videos") / "good", SynthClip(num_frames=12))


QUICK = ("--seconds", 0.05, "--repeats", 1)


def test_stages_prints_the_ratio_and_leaves_a_trace_beside_the_numbers(call, video, tmp_path):
    out, logs = tmp_path / "out", tmp_path / "logs"
    code, said, err = call(
        *("bench", "stages", video, *QUICK, "--batch-size", 2, "--out", out),
        *("--tensorboard", logs),
    )
    assert (code, err) == (0, "")
    assert "L_dec : L_prep : L_inf = " in said
    rows = [line.split() for line in said.splitlines()]
    heads = next(k for k, row in enumerate(rows) if row[:2] == ["stage", "ms"])
    assert [row[0] for row in rows[heads + 1 : heads + 4]] == ["decode", "preprocess", "model"]
    record = StagesRecord.model_validate_json((out / "stages.json").read_text())
    assert set(record.turns[0].work_ms) == {"decode", "preprocess", "model"}
    assert "chart-stages" in (out / "stages.html").read_text()
    trace = json.loads(gzip.decompress((out / "stages.trace.json.gz").read_bytes()))
    names = {each["name"] for each in trace["traceEvents"]}
    assert {f"{stage} {k}" for stage in record.turns[0].work_ms for k in range(11)} <= names
    assert "aten::conv2d" in names
    [log] = logs.iterdir()
    assert len(list(log.glob("events.out.tfevents.*"))) == 1
    assert (log / "headrace.pt.trace.json.gz").stat().st_size > 0


def test_prefetch_times_every_depth_on_real_workers(call, video, tmp_path):
    out = tmp_path / "out"
    small = ("--clip-len", 2, "--size", 16, 16, "--prefetch-factor", "1,4", "--step-ms", 1)
    code, said, err = call("bench", "prefetch", video, *QUICK, *small, "--out", out, "--json")
    assert (code, err) == (0, "")
    record = PrefetchRecord.model_validate_json(said)
    depths = [turn.prefetch_factor for turn in record.turns if not turn.is_pinned]
    assert depths == [1, 4]
    for turn in record.turns:
        assert min(turn.intervals_ms) >= record.step_ms == 1
        assert len(turn.waits_ms) == len(turn.intervals_ms) >= 12
    assert json.loads((out / "prefetch.json").read_text()) == json.loads(said)
    assert "chart-waits" in (out / "prefetch.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("stages", "VIDEO", "VIDEO"), 2, "bench stages takes one video, got 2"),
        (("stages", "gone.mp4"), 1, "gone.mp4"),
        (("stages", "VIDEO", "--model-name", "resnet"), 2, "resnet"),
        (("stages", "VIDEO", "--seconds", 0), 2, "seconds must be > 0, got 0.0"),
        (("stages", "VIDEO", "--tensorboard", "VIDEO"), 2, "give another folder with --tensorb"),
        (("prefetch", "gone.mp4"), 1, "gone.mp4"),
        (("prefetch", "VIDEO", "--prefetch-factor", "0"), 2, "must be numbers from 1 up, got 0"),
        (("prefetch", "VIDEO", "--clip-len", 99, "--boundary", "error"), 2, "6 are possible"),
    ],
)
def test_what_cannot_be_done_is_one_line(call, video, tmp_path, arguments, code, said):
    typed = [video if each == "VIDEO" else each for each in arguments]
    out = tmp_path / "out"
    ended, _, err = call("bench", *typed, "--out", out, "--json")
    assert ended == code
    assert said in err
    assert err.count("\n") == 1
    assert not list(out.glob("*")), "nothing is half written"
