"""Live runs, from sources to the recorded session."""

import csv
import json
from dataclasses import replace

import pyarrow.parquet
import pytest
import torch

from headrace.errors import DecodeError, OpenError
from headrace.live.live_source import LiveFrame
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session
from headrace.report.folder import write_run
from headrace.report.text import render_text
from headrace.runs.live.live_session import LiveRunner
from headrace.runs.live.live_sources import open_sources
from headrace.runs.run_options import DetectionOptions, FlowOptions
from headrace.runtime.clock import iso_text
from headrace.runtime.waitable_source import Waiter
from headrace.testing.damage import damage_packets
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.content_digest import content_digest
from runs.kit import (
    SQUEEZENET,
    Collecting,
    annotated_frames,
    check_checkpoints,
    options,
    predictions,
)
from runs.live.fake_sources import Endless, FakeSource
from runs.tiny import tiny_classifier, tiny_detector
from runtime.in_time import in_time

GONE = OpenError("cannot go on: the camera is gone", source="fake")


@pytest.fixture
def runner(tmp_path):
    """Return a function: fake sources, options -> a run of a tiny model."""

    def make(*sources, model=None, sinks=(), on_notice=lambda notice: None, **values):
        defaults = {"overload": "keep-all", "batch_size": 4, "video": False}
        names = [source.name for source in sources]
        return LiveRunner(
            options=options(names, tmp_path, **{**defaults, **values}),
            sources=sources,
            model=model or tiny_classifier(),
            clock=FakeClock(),
            **{"sinks": sinks, "on_notice": on_notice},
        )

    return make


def run(runner, on_step=lambda step: None):
    return in_time(lambda: runner.run(on_step))


class Sizeable(FakeSource):
    """A source with frames large enough for a video file."""

    def frames(self, number, waiter, note):
        for value in super().frames(number, waiter, note):
            if hasattr(value, "pixels"):
                value = replace(value, pixels=value.pixels.repeat(32, 0).repeat(32, 1))
            yield value


def test_a_run_with_a_failed_source_is_recorded_completely(runner, tmp_path):
    door = FakeSource(count=9, name="door", dropped=(4,), error=GONE)
    session = run(runner(door, FakeSource(count=20, name="yard", captured=True)))
    assert (session.kind, session.pace, session.outcome) == ("live", "schedule", "complete")
    items = session.items
    assert (items.arrived, items.delivered, items.in_flight) == (30, 28, 0), (
        "the failure counts as a frame"
    )
    assert sum(session.steps.frames) == 28
    assert [(s.name, s.arrived, s.error) for s in session.sources] == [
        ("door", 10, "cannot go on: the camera is gone"),
        ("yard", 20, None),
    ]
    assert session.stages[0].dropped == {"damaged": 1, "source failed": 1}
    assert sorted((event.kind, event.source, event.words) for event in session.events) == [
        ("failed", 0, "cannot go on: the camera is gone"),
        ("joined", 0, "joined 5 ms behind"),
        ("joined", 1, "joined 5 ms behind"),
    ]
    times = [event.at_seconds for event in session.events]
    assert times == sorted(times)
    assert Metrics.of(session).capture_ms is not None
    written = write_run(session, tmp_path)
    assert Session.load(tmp_path / "session.json") == written
    text = render_text(written)
    parts = ("30 frames", "= 28 delivered + 2 dropped + 0 in flight", "joined 5 ms behind")
    assert [part for part in parts if part not in " ".join(text.split())] == []
    assert "the camera is gone" in (tmp_path / "report.html").read_text()


def test_a_file_source_is_recorded_with_its_digest(runner, tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=4))
    session = run(runner(FakeSource(count=3, name=str(path))))
    assert session.sources[0].content == content_digest(path)
    assert session.usage is not None


def test_before_start_is_called_before_the_first_frame(runner):
    calls, at_steps = [], []
    waiting = replace(runner(FakeSource(count=3)), before_start=lambda: calls.append(1))
    run(waiting, lambda step: at_steps.append(list(calls)))
    assert at_steps[0] == calls == [1]


def test_predictions_name_the_source_of_each_line(runner, tmp_path):
    run(runner(FakeSource(count=3, name="a"), FakeSource(count=2, name="b")))
    rows = sorted((row["source"], row["index"]) for row in predictions(tmp_path))
    assert rows == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rows_have_the_arrival_time_and_segment_of_their_frame(runner, tmp_path, kind):
    """The fake clock starts at 2023-11-14T22:13:20Z."""
    yard = FakeSource(count=3, interval_ms=250, name="yard", captured=True, reconnects=(2,))
    session = write_run(run(runner(yard, predictions=kind, batch_size=1)), tmp_path)
    times = [f"2023-11-14T22:13:20.{ms}000+00:00" for ms in ("000", "250", "500")]
    expected = [
        {"source": "yard", "segment": segment, "arrival_time": time, "capture_time": time}
        for segment, time in zip((0, 0, 1), times, strict=True)
    ]
    [metrics] = tmp_path.glob("M_*_metrics.csv")
    lines = csv.DictReader(metrics.read_text().splitlines())
    steps = [row | {"segment": int(row["segment"])} for row in lines]
    for rows in (predictions(tmp_path, kind), steps):
        assert [{name: as_text(row[name]) for name in expected[0]} for row in rows] == expected
    assert Session.load(tmp_path / "session.json") == session


def as_text(value):
    """Return a time as in lines of JSON; any other value unchanged."""
    return iso_text(value) if hasattr(value, "isoformat") else value


def test_rows_of_files_at_full_speed_have_no_arrival_time(runner, tmp_path):
    run(runner(FakeSource(count=2, base="full_speed")))
    assert not {"segment", "arrival_time"} & predictions(tmp_path)[0].keys()


def test_each_source_has_its_own_annotated_video(runner, tmp_path):
    session = run(runner(Sizeable(count=5, name="a"), Sizeable(count=3, name="b"), video=True))
    videos = ("annotated-0.mp4", "annotated-1.mp4")
    assert set(session.outputs) == {*videos, "predictions.jsonl"}
    assert [len(annotated_frames(tmp_path, name)) for name in videos] == [5, 3]


def test_boxes_of_a_live_run_are_drawn_and_written_with_arrival_times(runner, tmp_path):
    """The fake clock starts at 2023-11-14T22:13:20Z."""
    results = []
    sources = (Sizeable(count=5, name="a"), Sizeable(count=3, interval_ms=250, name="b"))
    sink = Collecting(results.append)
    boxes = DetectionOptions(lines=True)
    values = {"detection": boxes, "video": True, "sinks": (sink,)}
    session = run(runner(*sources, model=tiny_detector(), **values))
    videos = ("annotated-0.mp4", "annotated-1.mp4")
    assert session.outputs == (*videos, "coco.json", "boxes.jsonl", "boxes.parquet")
    assert (session.items.delivered, len(results)) == (8, 8)
    assert [len(annotated_frames(tmp_path, name)) for name in videos] == [5, 3]
    frame = annotated_frames(tmp_path, videos[0])[0].to_ndarray(format="rgb24").astype(int)
    green = frame[:, :, 1] > frame[:, :, (0, 2)].max(axis=2) + 10
    assert green[30:, :3].any(axis=1).mean() > 0.9
    assert green[30:, 60:68].any(axis=1).mean() > 0.9, "around the left half"
    lines = [json.loads(line) for line in (tmp_path / "boxes.jsonl").read_text().splitlines()]
    assert sorted((line["source"], line["index"]) for line in lines) == [
        *(("a", k) for k in range(5)),
        *(("b", k) for k in range(3)),
    ]
    assert {line["boxes"][0]["label"] for line in lines} == {"dog"}
    assert {line["arrival_time"][:19] for line in lines} == {"2023-11-14T22:13:20"}
    rows = pyarrow.parquet.read_table(tmp_path / "boxes.parquet").to_pylist()
    assert {(row["source"], row["index"]): row["x2"] for row in rows} == {
        (line["source"], line["index"]): 64.0 for line in lines
    }
    images = json.loads((tmp_path / "coco.json").read_text())["images"]
    assert {image["segment"] for image in images} == {0}


def test_a_named_detector_runs_live_with_the_default_threshold(tmp_path, prepare):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=3))
    values = {"model_name": "ssdlite320_mobilenet_v3_large", "pace": "realtime"}
    session = prepare(clip, overload="keep-all", **values).run()
    assert session.outputs == ("annotated.mp4", "coco.json", "boxes.jsonl")
    recorded = session.provenance.configuration
    assert (recorded["threshold"], recorded["parquet"]) == (0.7, False)
    assert not {"predictions", "top_k"} & recorded.keys()


def test_the_resolved_drop_policy_is_recorded(runner):
    def recorded(**values):
        configuration = runner(FakeSource(count=3), **values).configuration()
        return configuration["overload"], configuration["queue"]

    assert recorded(overload="auto") == ("keep-last", 1)
    assert recorded(overload="keep-all") == ("keep-all", 2)
    assert recorded(overload="keep-last", queue=5) == ("keep-last", 5)


def test_a_full_disk_ends_only_its_sink_with_a_notice(runner, tmp_path):
    """`/dev/full` acts as a file on a full disk."""
    (tmp_path / "predictions.jsonl").symlink_to("/dev/full")
    notices, frames = [], []
    sink = Collecting(lambda results: frames.extend(results.batch.index.tolist()))
    sinks = {"sinks": (sink,), "on_notice": notices.append}
    session = run(runner(Sizeable(count=200), video=True, **sinks))
    assert (session.outcome, session.items.delivered, len(notices)) == ("complete", 200, 1)
    [notice], reason = notices, notices[0].reason
    assert (notice.event, notice.source) == ("failed", None)
    assert "predictions.jsonl: no space left on device; give another folder with --out" in reason
    failed = [event for event in session.events if event.kind == "failed"]
    assert [(event.source, event.words) for event in failed] == [(None, reason)]
    (failed,) = [stage for stage in session.stages if stage.dropped.get("sink failed")]
    assert failed.name == "predictions"
    assert len(annotated_frames(tmp_path)) == 200
    assert frames == list(range(200)), "the custom sink receives all frames"


def test_a_failed_source_is_a_notice_with_its_time(runner):
    """The fake clock starts at 2023-11-14T22:13:20Z."""
    notices = []
    fields = {"interval_ms": 1000, "base": "arrival"}
    door = FakeSource(count=3, name="door", error=GONE, **fields)
    run(runner(door, FakeSource(count=8, name="yard", **fields), on_notice=notices.append))
    assert {notice.text()[:17] for notice in notices} == {"2023-11-14T22:13:"}
    assert {notice.text()[19:] for notice in notices} == {
        "Z door: joined 5 ms behind",
        "Z door: cannot go on: the camera is gone",
        "Z yard: joined 5 ms behind",
    }
    [failed] = [notice for notice in notices if notice.event == "failed"]
    assert json.loads(failed.json()) == {
        **{"time": iso_text(failed.time), "event": "failed", "source": "door", "frames": 0},
        "reason": "cannot go on: the camera is gone",
    }


LOST = OpenError("gone", source="x")


@pytest.mark.parametrize(
    ("error", "expected"),
    [(KeyboardInterrupt, ("interrupted", None)), (LOST, ("failed", "gone"))],
)
def test_a_run_that_ends_early_is_recorded_with_its_results(runner, tmp_path, error, expected):
    def on_step(step):
        if step.step == 5:
            raise error

    session = run(runner(Endless(count=20)), on_step)
    assert (session.outcome, session.error) == expected
    assert len(session.steps) == 6
    items = session.items
    assert items.arrived == items.delivered + items.dropped + items.in_flight
    assert len(predictions(tmp_path)) >= 6


def test_a_source_that_cannot_be_opened_fails_the_run(runner):
    session = run(runner(FakeSource(count=0, error=GONE), Endless(count=1)))
    assert (session.outcome, session.error) == ("failed", "cannot go on: the camera is gone")
    [event] = [event for event in session.events if event.kind == "failed"]
    assert (event.source, event.words) == (0, session.error)


def test_a_run_ends_after_max_steps(runner):
    session = run(runner(Endless(count=20), max_steps=4))
    assert (session.outcome, len(session.steps)) == ("complete", 4)


def test_a_step_of_a_clip_has_the_arrivals_of_its_newest_and_oldest_frames(runner):
    class Zeros(torch.nn.Module):
        def forward(self, clips):
            return torch.zeros(len(clips), 2)

    tiny = tiny_classifier(Zeros())
    model = replace(tiny, input=replace(tiny.input, num_frames=4))
    session = run(runner(FakeSource(count=8), model=model))
    steps = list(session.steps.rows())
    assert [step.first_index for step in steps] == [0, 4]
    assert [s.arrived_ms - s.oldest_arrived_ms for s in steps] == pytest.approx([30, 30])
    assert session.stages[1].name == "clips"


@pytest.fixture
def prepare(tmp_path):
    """Return a function: sources, options -> a runner with a small real model."""

    def make(*sources, out=tmp_path / "out", **values):
        return LiveRunner.prepare(options(sources, out, **{**SQUEEZENET, **values}))

    return make


def test_at_full_speed_the_session_has_no_latency(tmp_path, prepare):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=20))
    session = prepare(clip, clip, video=False, batch_size=4).run()
    assert (session.kind, session.pace) == ("run", "full_speed")
    assert sum(session.steps.frames) == 40
    assert Metrics.of(session).latency is None
    assert "Latency  " not in render_text(session)
    assert session.provenance.configuration["sources"] == f"{clip}, {clip}"


def test_a_duration_may_contain_spaces():
    assert FlowOptions(max_staleness=" 2 min").max_staleness_seconds == 120


def test_records_are_passed_on_during_the_run(runner):
    _, second, *_, session = check_checkpoints(runner(FakeSource(count=20)), run)
    assert second.outputs == session.outputs


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """Return the path of a video of 24 frames; 5, 6 and the last one are damaged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=24, gop=1))
    return str(damage_packets(path, tmp_path / "damaged.mp4", ordinals=[5, 6, 23]))


def read(path, on_error):
    (source,) = open_sources([path], "auto", on_error=on_error)
    return source, list(source.frames(0, Waiter(FakeClock()), lambda event: None))


def test_a_damaged_frame_is_an_error_or_with_skip_a_drop(damaged):
    with pytest.raises(DecodeError, match=r"damaged\.mp4"):
        read(damaged, "raise")
    source, items = read(damaged, "skip")
    assert len(items) == 24
    frames = [item for item in items if isinstance(item, LiveFrame)]
    assert all(items[frame.number] is frame for frame in frames)
    assert [frame.run for frame in frames] == [0] * 5 + [1] * 16
    assert [loss.index for loss in source.losses] == [5, 6, 23]


def test_concealed_frames_are_delivered_and_listed(damaged):
    source, items = read(damaged, "conceal")
    assert [item.number for item in items] == list(range(24))
    losses = [(loss.index, loss.is_concealed) for loss in source.losses]
    assert losses == [(5, True), (6, True), (23, True)]
