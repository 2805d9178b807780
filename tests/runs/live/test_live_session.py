"""A live run, from sources to the recorded session."""

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
from runs.kit import SQUEEZENET, Collecting, check_handed_out, options, pictures, predictions
from runs.live.fake_sources import Endless, FakeSource
from runs.tiny import tiny_classifier, tiny_detector
from runtime.in_time import in_time

GONE = OpenError("cannot go on: the camera is gone", source="fake")


@pytest.fixture
def runner(tmp_path):
    """Return a function: fake sources, options -> a run whose model costs nothing."""

    def make(*sources, model=None, sinks=(), on_notice=lambda notice: None, **given):
        plain = {"overload": "keep-all", "batch_size": 4, "video": False}
        names = [source.name for source in sources]
        return LiveRunner(
            options=options(names, tmp_path, **{**plain, **given}),
            sources=sources,
            model=model or tiny_classifier(),
            clock=FakeClock(),
            **{"sinks": sinks, "on_notice": on_notice},
        )

    return make


def run(runner, on_step=lambda step: None):
    return in_time(lambda: runner.run(on_step))


class Sizeable(FakeSource):
    """A source whose frames a video file can hold."""

    def frames(self, number, waiter, note):
        for value in super().frames(number, waiter, note):
            if hasattr(value, "pixels"):
                value = replace(value, pixels=value.pixels.repeat(32, 0).repeat(32, 1))
            yield value


def test_a_run_over_two_sources_one_of_which_fails_is_recorded_whole(runner, tmp_path):
    door = FakeSource(count=9, name="door", dropped=(4,), error=GONE)
    session = run(runner(door, FakeSource(count=20, name="yard", captured=True)))
    assert (session.kind, session.pace, session.outcome) == ("live", "schedule", "complete")
    items = session.items
    assert (items.arrived, items.delivered, items.in_flight) == (30, 28, 0), "the failure is one"
    assert sum(session.steps.frames) == 28
    assert [(s.name, s.arrived, s.error) for s in session.sources] == [
        ("door", 10, "cannot go on: the camera is gone"),
        ("yard", 20, None),
    ]
    assert session.stages[0].dropped == {"damaged": 1, "source failed": 1}
    assert {(event.kind, event.source, event.words) for event in session.events} >= {
        ("joined", 0, "joined 5 ms behind"),
        ("failed", 0, "cannot go on: the camera is gone"),
    }
    moments = [event.at_seconds for event in session.events]
    assert moments == sorted(moments)
    assert Metrics.of(session).capture_ms is not None
    written = write_run(session, tmp_path)
    assert Session.load(tmp_path / "session.json") == written
    text = render_text(written)
    parts = ("30 frames", "= 28 delivered + 2 dropped + 0 in flight", "joined 5 ms behind")
    assert [part for part in parts if part not in text] == []
    assert "the camera is gone" in (tmp_path / "report.html").read_text()


def test_a_source_that_is_a_file_is_recorded_with_its_digest(runner, tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=4))
    session = run(runner(FakeSource(count=3, name=str(path))))
    assert session.sources[0].content == content_digest(path)
    assert session.usage is not None


def test_what_waits_for_others_is_called_before_the_first_frame(runner):
    waited, steps = [], []
    waiting = replace(runner(FakeSource(count=3)), before_start=lambda: waited.append(1))
    run(waiting, lambda step: steps.append(list(waited)))
    assert steps[0] == waited == [1]


def test_predictions_say_which_source_a_line_is_from(runner, tmp_path):
    run(runner(FakeSource(count=3, name="a"), FakeSource(count=2, name="b")))
    rows = sorted((row["source"], row["index"]) for row in predictions(tmp_path))
    assert rows == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rows_say_when_its_frame_came_and_by_which_connection(runner, tmp_path, kind):
    """The clock of these tests stands at 2023-11-14T22:13:20Z when the run begins."""
    yard = FakeSource(count=3, interval_ms=250, name="yard", captured=True, reconnects=(2,))
    session = write_run(run(runner(yard, predictions=kind, batch_size=1)), tmp_path)
    times = [f"2023-11-14T22:13:20.{part}000+00:00" for part in ("000", "250", "500")]
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
    """Return a time of a table as in lines of JSON, all else as it is."""
    return iso_text(value) if hasattr(value, "isoformat") else value


def test_rows_of_files_at_full_speed_have_no_time_of_arrival(runner, tmp_path):
    run(runner(FakeSource(count=2, base="full_speed")))
    assert not {"segment", "arrival_time"} & predictions(tmp_path)[0].keys()


def test_each_source_has_a_video_of_its_own_that_plays(runner, tmp_path):
    session = run(runner(Sizeable(count=5, name="a"), Sizeable(count=3, name="b"), video=True))
    videos = ("annotated-0.mp4", "annotated-1.mp4")
    assert set(session.outputs) == {*videos, "predictions.jsonl"}
    assert [len(pictures(tmp_path, name)) for name in videos] == [5, 3]


def test_boxes_of_a_live_run_are_drawn_and_listed_with_the_times_they_came(runner, tmp_path):
    """The clock of these tests stands at 2023-11-14T22:13:20Z when the run begins."""
    seen = []
    sources = (Sizeable(count=5, name="a"), Sizeable(count=3, interval_ms=250, name="b"))
    own = Collecting(seen.append)
    boxes = DetectionOptions(lines=True)
    given = {"detection": boxes, "video": True, "sinks": (own,)}
    session = run(runner(*sources, model=tiny_detector(), **given))
    videos = ("annotated-0.mp4", "annotated-1.mp4")
    assert session.outputs == (*videos, "coco.json", "boxes.jsonl", "boxes.parquet")
    assert (session.items.delivered, len(seen)) == (8, 8)
    assert [len(pictures(tmp_path, name)) for name in videos] == [5, 3]
    frame = pictures(tmp_path, videos[0])[0].to_ndarray(format="rgb24").astype(int)
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


def test_a_detector_by_its_name_is_run_live_with_the_boxes_it_is_sure_of(tmp_path, prepare):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=3))
    given = {"model_name": "ssdlite320_mobilenet_v3_large", "pace": "realtime"}
    session = prepare(clip, overload="keep-all", **given).run()
    assert session.outputs == ("annotated.mp4", "coco.json", "boxes.jsonl")
    found = session.provenance.configuration
    assert (found["threshold"], found["parquet"]) == (0.7, False)
    assert not {"predictions", "top_k"} & found.keys()


def test_the_record_has_the_drop_policy_in_force(runner):
    def in_force(**given):
        found = runner(FakeSource(count=3), **given).configuration()
        return found["overload"], found["queue"]

    assert in_force(overload="auto") == ("keep-last", 1)
    assert in_force(overload="keep-all") == ("keep-all", 2)
    assert in_force(overload="keep-last", queue=5) == ("keep-last", 5)


def test_a_disk_that_runs_full_ends_that_sink_alone_and_is_told_at_once(runner, tmp_path):
    """`/dev/full` is a file on a full disk."""
    (tmp_path / "predictions.jsonl").symlink_to("/dev/full")
    told, frames = [], []
    own = Collecting(lambda seen: frames.extend(seen.batch.index.tolist()))
    made = runner(Sizeable(count=200), video=True, sinks=(own,), on_notice=told.append)
    session = run(made)
    assert (session.outcome, session.items.delivered, len(told)) == ("complete", 200, 1)
    [notice], words = told, told[0].reason
    assert (notice.event, notice.source) == ("failed", None)
    assert "predictions.jsonl: no space left on device; give another folder with --out" in words
    failed = [event for event in session.events if event.kind == "failed"]
    assert [(event.source, event.words) for event in failed] == [(None, words)]
    (ended,) = [stage for stage in session.stages if stage.dropped.get("sink failed")]
    assert ended.name == "predictions"
    assert len(pictures(tmp_path)) == 200
    assert frames == list(range(200)), "a sink of one's own is shown all, too"


def test_a_source_that_fails_is_told_of_at_once_with_its_time(runner):
    """The clock of these tests stands at 2023-11-14T22:13:20Z when the run begins, and moves on."""
    told = []
    given = {"interval_ms": 1000, "base": "arrival"}
    door = FakeSource(count=3, name="door", error=GONE, **given)
    run(runner(door, FakeSource(count=8, name="yard", **given), on_notice=told.append))
    assert {notice.text()[:17] for notice in told} == {"2023-11-14T22:13:"}
    assert {notice.text()[19:] for notice in told} == {
        "Z door: joined 5 ms behind",
        "Z door: cannot go on: the camera is gone",
        "Z yard: joined 5 ms behind",
    }
    [failed] = [notice for notice in told if notice.event == "failed"]
    assert json.loads(failed.json()) == {
        **{"time": iso_text(failed.time), "event": "failed", "source": "door", "frames": 0},
        "reason": "cannot go on: the camera is gone",
    }


LOST = OpenError("gone", source="x")


@pytest.mark.parametrize(
    ("error", "expected"),
    [(KeyboardInterrupt, ("interrupted", None)), (LOST, ("failed", "gone"))],
)
def test_a_run_that_ends_early_is_recorded_with_what_was_done(runner, tmp_path, error, expected):
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


def test_a_run_stops_after_so_many_steps(runner):
    session = run(runner(Endless(count=20), max_steps=4))
    assert (session.outcome, len(session.steps)) == ("complete", 4)


def test_latency_counts_from_the_newest_frame_of_a_clip_beside_the_oldest(runner):
    class Still(torch.nn.Module):
        def forward(self, clips):
            return torch.zeros(len(clips), 2)

    tiny = tiny_classifier(Still())
    model = replace(tiny, input=replace(tiny.input, num_frames=4))
    session = run(runner(FakeSource(count=8), model=model))
    steps = list(session.steps.rows())
    assert [step.first_index for step in steps] == [0, 4]
    assert [s.arrived_ms - s.oldest_arrived_ms for s in steps] == pytest.approx([30, 30])
    assert session.stages[1].name == "clips"


@pytest.fixture
def prepare(tmp_path):
    """Return a function: sources, options -> a runner with a real, small model."""

    def make(*sources, out=tmp_path / "out", **given):
        return LiveRunner.prepare(options(sources, out, **{**SQUEEZENET, **given}))

    return make


def test_at_full_speed_the_session_holds_no_latency(tmp_path, prepare):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=20))
    session = prepare(clip, clip, video=False, batch_size=4).run()
    assert (session.kind, session.pace) == ("run", "full_speed")
    assert sum(session.steps.frames) == 40
    assert Metrics.of(session).latency is None
    assert "Latency  " not in render_text(session)
    assert session.provenance.configuration["sources"] == f"{clip}, {clip}"


def test_a_span_of_time_is_read_as_people_write_it():
    assert FlowOptions(max_staleness=" 2 min").max_staleness_seconds == 120


def test_the_record_is_handed_out_as_it_goes_for_a_process_that_is_killed(runner):
    _, second, *_, session = check_handed_out(runner(FakeSource(count=20)), run)
    assert second.outputs == session.outputs


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """Two dozen frames; 5, 6 and the last one are damaged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=24, gop=1))
    return str(damage_packets(path, tmp_path / "damaged.mp4", ordinals=[5, 6, 23]))


def read(path, on_error):
    (source,) = open_sources([path], "auto", on_error=on_error)
    return source, list(source.frames(0, Waiter(FakeClock()), lambda event: None))


def test_a_damaged_frame_ends_the_reading_or_is_dropped_in_its_place_and_a_run_ends(damaged):
    with pytest.raises(DecodeError, match=r"damaged\.mp4"):
        read(damaged, "raise")
    source, items = read(damaged, "skip")
    assert len(items) == 24
    frames = [item for item in items if isinstance(item, LiveFrame)]
    assert all(items[frame.number] is frame for frame in frames)
    assert [frame.run for frame in frames] == [0] * 5 + [1] * 16
    assert [loss.index for loss in source.losses] == [5, 6, 23]


def test_what_is_concealed_comes_and_is_listed(damaged):
    source, items = read(damaged, "conceal")
    assert [item.number for item in items] == list(range(24))
    losses = [(loss.index, loss.is_concealed) for loss in source.losses]
    assert losses == [(5, True), (6, True), (23, True)]
