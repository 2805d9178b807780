"""A live run, from sources to the recorded session."""

import csv
import json
from dataclasses import replace

import av
import pyarrow.parquet
import pytest
import torch

from headrace.errors import ConfigError, OpenError
from headrace.profiling.metrics import Metrics
from headrace.profiling.session import Session
from headrace.report.folder import write_run
from headrace.report.text import render_text
from headrace.runs.live.options import ClipOptions, FlowOptions, LiveOptions
from headrace.runs.live.runner import LiveRunner
from headrace.runs.options import ComputeOptions, InputOptions, OutputOptions
from headrace.runtime.clock import iso_text
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.content import content_digest
from runs.live.fake_sources import Endless, FakeSource
from runs.tiny import tiny_classifier
from runtime.in_time import in_time

GONE = OpenError("cannot go on: the camera is gone", source="fake")


def runner_of(
    folder,
    *sources,
    model=None,
    video=True,
    max_steps=None,
    predictions="jsonl",
    batch_size=4,
    **flow,
):
    """A runner of fake sources whose model costs nothing."""
    options = LiveOptions(
        input=InputOptions(sources=tuple(source.name for source in sources), max_steps=max_steps),
        flow=FlowOptions(**{"overload": "every-frame", **flow}),
        compute=ComputeOptions(batch_size=batch_size),
        output=OutputOptions(out=folder, video=video, predictions=predictions),
    )
    model = model or tiny_classifier()
    return LiveRunner(options=options, sources=sources, model=model, clock=FakeClock())


def run(runner, on_step=lambda step: None):
    return in_time(lambda: runner.run(on_step))


def sizeable(count, **options):
    """A source whose frames a video file can hold."""

    class Sizeable(FakeSource):
        def frames(self, number, waiter, note):
            for value in super().frames(number, waiter, note):
                if hasattr(value, "pixels"):
                    value = replace(value, pixels=value.pixels.repeat(32, 0).repeat(32, 1))
                yield value

    return Sizeable(count=count, **options)


def test_a_run_over_two_sources_one_of_which_fails_is_recorded_whole(tmp_path):
    sources = (
        FakeSource(count=9, name="door", dropped=(4,), error=GONE),
        FakeSource(count=20, name="yard", captured=True),
    )
    session = run(runner_of(tmp_path, *sources, video=False))
    assert (session.kind, session.pace, session.outcome) == ("live", "schedule", "complete")
    assert session.items.arrived == 30  # the failure takes the place of a frame
    assert session.items.delivered == 28 == sum(session.steps.frames)
    assert session.items.in_flight == 0
    assert [(s.name, s.arrived, s.error) for s in session.sources] == [
        ("door", 10, "cannot go on: the camera is gone"),
        ("yard", 20, None),
    ]
    assert session.stages[0].dropped == {"damaged": 1, "source failed": 1}
    happened = {(event.kind, event.source, event.words) for event in session.events}
    assert happened >= {
        ("joined", 0, "joined 5 ms behind"),
        ("failed", 0, "cannot go on: the camera is gone"),
    }
    assert [event.at_seconds for event in session.events] == sorted(
        event.at_seconds for event in session.events
    )
    assert Metrics.of(session).capture_ms is not None
    written = write_run(session, tmp_path)
    assert Session.load(tmp_path / "session.json") == written
    text = render_text(written)
    assert "30 frames" in text
    assert "= 28 delivered + 2 dropped + 0 in flight" in text
    assert "joined 5 ms behind" in text
    assert "the camera is gone" in (tmp_path / "report.html").read_text()


def test_a_source_that_is_a_file_is_recorded_with_its_digest(tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=4))
    session = run(runner_of(tmp_path, FakeSource(count=3, name=str(path)), video=False))
    assert session.sources[0].content == content_digest(path)
    assert session.usage is not None


def test_what_waits_for_others_is_called_before_the_first_frame(tmp_path):
    waited = []
    runner = runner_of(tmp_path, FakeSource(count=3), video=False)
    runner = replace(runner, before_start=lambda: waited.append(1))
    steps = []
    run(runner, lambda step: steps.append(list(waited)))
    assert steps
    assert steps[0] == waited == [1]


def test_predictions_say_which_source_a_line_is_from(tmp_path):
    run(runner_of(tmp_path, FakeSource(count=3, name="a"), FakeSource(count=2, name="b")))
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert sorted((row["source"], row["index"]) for row in rows) == [
        *(("a", k) for k in range(3)),
        *(("b", k) for k in range(2)),
    ]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_every_row_says_when_its_frame_came_and_by_which_connection(tmp_path, kind):
    """The clock of these tests stands at 2023-11-14T22:13:20Z when the run begins."""
    yard = FakeSource(count=3, interval_ms=250, name="yard", captured=True, reconnects=(2,))
    runner = runner_of(tmp_path, yard, video=False, predictions=kind, batch_size=1)
    session = write_run(run(runner), tmp_path)
    rows = rows_of(tmp_path / f"predictions.{kind}")
    times = [f"2023-11-14T22:13:20.{part}000+00:00" for part in ("000", "250", "500")]
    expected = [("yard", 0, times[0]), ("yard", 0, times[1]), ("yard", 1, times[2])]
    assert [(row["source"], row["segment"], row["arrival_time"]) for row in rows] == expected
    assert [row["capture_time"] for row in rows] == times
    [metrics] = tmp_path.glob("M_*_metrics.csv")
    steps = list(csv.DictReader(metrics.read_text().splitlines()))
    assert [(row["source"], int(row["segment"]), row["arrival_time"]) for row in steps] == expected
    assert [row["capture_time"] for row in steps] == times
    assert Session.load(tmp_path / "session.json") == session


def rows_of(path):
    """Rows of predictions, times as text, whatever the format."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    rows = pyarrow.parquet.read_table(path).to_pylist()
    times = ("arrival_time", "capture_time")
    return [row | {name: iso_text(row[name]) for name in times} for row in rows]


def test_rows_of_files_at_full_speed_have_no_time_of_arrival(tmp_path):
    run(runner_of(tmp_path, FakeSource(count=2, base="full_speed"), video=False))
    assert not {"segment", "arrival_time"} & rows_of(tmp_path / "predictions.jsonl")[0].keys()


def test_each_source_has_a_video_of_its_own_that_plays(tmp_path):
    session = run(runner_of(tmp_path, sizeable(5, name="a"), sizeable(3, name="b")))
    assert set(session.outputs) == {"annotated-0.mp4", "annotated-1.mp4", "predictions.jsonl"}
    counts = []
    for name in ("annotated-0.mp4", "annotated-1.mp4"):
        with av.open(str(tmp_path / name)) as container:
            counts.append(len(list(container.decode(video=0))))
    assert counts == [5, 3]


class FullDisk:
    """A sink that fails at its third result."""

    outputs = ()

    def __init__(self):
        self.written = 0

    def write(self, seen):
        self.written += 1
        if self.written == 3:
            raise ConfigError("cannot write x: no space left on device; give another folder")

    def close(self):
        pass


def test_a_sink_that_fails_ends_alone_and_is_told_of(tmp_path):
    told = []
    runner = runner_of(tmp_path, FakeSource(count=40), video=False)
    session = run(replace(runner, sinks=(FullDisk(),), on_notice=told.append))
    assert session.outcome == "complete"
    assert session.items.delivered == 40
    assert len((tmp_path / "predictions.jsonl").read_text().splitlines()) == 40
    words = "cannot write x: no space left on device; give another folder"
    assert [(n.event, n.source, n.reason) for n in told] == [("failed", None, words)]
    failed = [event for event in session.events if event.kind == "failed"]
    assert [(event.source, event.words) for event in failed] == [(None, words)]
    assert session.stages[-1].dropped["sink failed"] > 0


def test_a_source_that_fails_is_told_of_at_once_with_its_time(tmp_path):
    """The clock of these tests stands at 2023-11-14T22:13:20Z when the run begins, and moves on."""
    told = []
    sources = (
        FakeSource(count=3, interval_ms=1000, name="door", error=GONE, base="arrival"),
        FakeSource(count=8, interval_ms=1000, name="yard", base="arrival"),
    )
    run(replace(runner_of(tmp_path, *sources, video=False), on_notice=told.append))
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


@pytest.mark.parametrize("error", [KeyboardInterrupt, OpenError("gone", source="x")])
def test_a_run_that_ends_early_is_recorded_with_what_was_done(tmp_path, error):
    def on_step(step):
        if step.step == 5:
            raise error

    session = run(runner_of(tmp_path, Endless(count=20), video=False), on_step)
    expected = ("interrupted", None) if error is KeyboardInterrupt else ("failed", "gone")
    assert (session.outcome, session.error) == expected
    assert len(session.steps) == 6
    items = session.items
    assert items.arrived == items.delivered + items.dropped + items.in_flight
    assert len((tmp_path / "predictions.jsonl").read_text().splitlines()) >= 6


def test_a_source_that_cannot_be_opened_fails_the_run(tmp_path):
    session = run(runner_of(tmp_path, FakeSource(count=0, error=GONE), Endless(count=1)))
    assert (session.outcome, session.error) == ("failed", "cannot go on: the camera is gone")


def test_a_run_stops_after_so_many_steps(tmp_path):
    session = run(runner_of(tmp_path, Endless(count=20), video=False, max_steps=4))
    assert (session.outcome, len(session.steps)) == ("complete", 4)


def test_latency_counts_from_the_newest_frame_of_a_clip_beside_the_oldest(tmp_path):
    class Still(torch.nn.Module):
        def forward(self, clips):
            return torch.zeros(len(clips), 2)

    tiny = tiny_classifier(Still())
    model = replace(tiny, input=replace(tiny.input, num_frames=4))
    runner = runner_of(tmp_path, FakeSource(count=8), model=model, video=False)
    session = run(runner)
    assert [step.first_index for step in session.steps.rows()] == [0, 4]
    for step in session.steps.rows():
        assert step.arrived_ms - step.oldest_arrived_ms == pytest.approx(30)
    assert session.stages[1].name == "clips"


def test_at_full_speed_the_session_holds_no_latency(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=20))
    options = LiveOptions(
        input=InputOptions(sources=(str(clip), str(clip))),
        compute=ComputeOptions(model_name="squeezenet1_1", weights="none", batch_size=4),
        output=OutputOptions(out=tmp_path / "out", video=False),
    )
    session = LiveRunner.prepare(options).run()
    assert (session.kind, session.pace) == ("run", "full_speed")
    assert sum(session.steps.frames) == 40
    assert Metrics.of(session).latency is None
    assert "Latency  " not in render_text(session)
    assert session.provenance.configuration["sources"] == f"{clip}, {clip}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute": ComputeOptions(model_name="mvit_v1_b", weights="none"), "clip_len": 8}, "16"),
        ({"clip_len": 8}, "takes single frames; leave out --clip-len"),
        ({"max_staleness": "1s", "pace": "offline"}, "never too many or too"),
        ({"source": "test://?seconds=1", "pace": "offline"}, "comes as it comes"),
        (
            {"compute": ComputeOptions(model_name="r3d_18", weights="none"), "stride": 2},
            "--clip-st",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_frame(tmp_path, options, message):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=2))
    compute = ComputeOptions(model_name="squeezenet1_1", weights="none")
    made = LiveOptions(
        input=InputOptions(
            sources=(options.get("source", str(clip)),), stride=options.get("stride", 1)
        ),
        flow=FlowOptions(
            pace=options.get("pace", "realtime"), max_staleness=options.get("max_staleness")
        ),
        clips=ClipOptions(clip_len=options.get("clip_len")),
        compute=options.get("compute", compute),
        output=OutputOptions(out=tmp_path / "out"),
    )
    with pytest.raises(ConfigError, match=message):
        LiveRunner.prepare(made)


@pytest.mark.parametrize(
    ("text", "seconds"), [("200ms", 0.2), ("1.5s", 1.5), ("2 min", 120.0), (" 5 s ", 5.0)]
)
def test_spans_of_time_read_as_people_write_them(text, seconds):
    assert FlowOptions(max_staleness=text).max_staleness_seconds == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["200", "fast", "0ms", "-1s", "1 month"])
def test_what_is_no_span_of_time_is_refused(text):
    with pytest.raises(ConfigError, match='must read like "200ms"'):
        FlowOptions(max_staleness=text)


def test_a_part_of_an_earlier_run_is_not_written_over_while_it_is_read(tmp_path):
    source = write_clip(tmp_path / "annotated-1", SynthClip(num_frames=3))
    options = LiveOptions(
        input=InputOptions(sources=(str(source),)),
        flow=FlowOptions(pace="realtime"),
        output=OutputOptions(out=tmp_path),
    )
    with pytest.raises(ConfigError, match=r"would replace its source .*annotated-1\.mp4"):
        LiveRunner.prepare(options)


def test_a_disk_that_runs_full_ends_that_sink_alone_and_is_told_at_once(tmp_path):
    """`/dev/full` is a file on a full disk."""
    (tmp_path / "predictions.jsonl").symlink_to("/dev/full")
    told = []
    source = sizeable(200, name="door")
    runner = replace(runner_of(tmp_path, source), on_notice=told.append)
    session = run(runner)
    assert (session.outcome, session.items.delivered) == ("complete", 200)
    assert len(told) == 1
    words = told[0].reason
    assert "predictions.jsonl: no space left on device; give another folder with --out" in words
    assert [event.words for event in session.events if event.kind == "failed"] == [words]
    with av.open(str(tmp_path / "annotated.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == 200


def test_the_record_is_handed_out_as_it_goes_for_a_process_that_is_killed(tmp_path):
    found = []
    runner = replace(runner_of(tmp_path, FakeSource(count=20), video=False), on_record=found.append)
    session = run(runner, lambda step: runner.clock.advance(1))
    assert (found[1].outcome, len(found[0].steps)) == ("interrupted", 1)
    assert 1 < len(found[1].steps) < len(session.steps)
    assert found[1].steps.frames[0] == session.steps.frames[0]
    assert found[1].stages[0].name == session.stages[0].name
    assert found[1].outputs == session.outputs
