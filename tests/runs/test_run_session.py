"""Records of steps, stages, inputs and losses; checkpoints of a run."""

import itertools
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError
from headrace.models.results import ClassNames
from headrace.profiling.input_records import lost_frame, summarize
from headrace.profiling.recorder import Recorder
from headrace.profiling.run_records import StageRecord
from headrace.profiling.session import Step
from headrace.report.folder import SESSION, write_checkpoint, write_run
from headrace.runs.file_run import decode_ahead_record
from headrace.runs.output_folder import prepare_folder
from headrace.runs.run_session import make_step, pipeline_records
from headrace.runs.run_stages import Transfer
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Span, Stage
from headrace.sinks.coco import CocoFile
from headrace.sinks.result_rows import open_boxes, open_predictions
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip
from headrace.video.frames import FrameLoss
from report.recorded import record


def test_a_step_has_the_work_of_each_stage_and_the_total_time():
    spans = (
        Span("decode", 1_000_000, 3_000_000),
        Span("preprocess", 4_000_000, 4_500_000),
        Span("model", 6_000_000, 16_000_000),
        Span("sink", 20_000_000, 21_000_000),
    )
    fields = {"input": 3, "first_index": 112, "frames": 16, "work_ms": {"decode": 40.0}}
    assert make_step(spans, 7, 500_000, **fields) == Step(
        step=7,
        input=3,
        first_index=112,
        frames=16,
        started_ms=0.5,
        work_ms={"decode": 40.0, "preprocess": 0.5, "model": 10.0, "sink": 1.0},
        total_ms=20.0,
    )


def test_every_queue_names_its_consumer_and_the_last_has_none():
    names = ("preprocess", "transfer", "model", "sink")
    stages = [Stage(name=name, function=abs) for name in names]
    with Pipeline(source=range(5), stages=stages, source_name="decode").run(
        clock=FakeClock()
    ) as run:
        assert [item.value for item in run] == [0, 1, 2, 3, 4]
    transfer = Transfer("cuda")
    transfer.moved_bytes = 7
    stages, queues = pipeline_records(run, {"transfer": transfer})
    assert [stage.name for stage in stages] == ["decode", *names]
    assert [stage.workers for stage in stages] == [1] * 5
    assert [stage.moved_bytes for stage in stages] == [0, 0, 7, 0, 0]
    assert [stage.moved_to for stage in stages] == [None, None, "cuda", None, None]
    assert [queue.name for queue in queues] == ["decode", *names]
    assert [queue.feeds for queue in queues] == [*names, None]
    assert {queue.puts for queue in queues} == {stage.items for stage in stages} == {5}


def test_threads_that_decode_ahead_are_busy_or_blocked():
    source = StageRecord(
        **{"name": "decode", "role": "decode", "workers": 1, "items": 9},
        **{"busy_seconds": 3.0, "starved_seconds": 0.0, "blocked_seconds": 7.0},
    )
    stage = decode_ahead_record(source, 2, 12.0)
    assert (stage.name, stage.role, stage.workers, stage.items) == ("decode", "decode", 2, 9)
    assert (stage.busy_seconds, stage.starved_seconds, stage.blocked_seconds) == (12.0, 0.0, 8.0)


def test_lost_frames_have_their_times_and_causes(scanned):
    index = scanned(SynthClip())
    causes = {15: "it is damaged", 18: "what FFmpeg shows instead", 30: "it is damaged"}
    losses = [
        FrameLoss.at(index, number, cause, is_concealed=number == 18)
        for number, cause in causes.items()
    ]
    lost = [lost_frame(loss, 1) for loss in losses]
    assert {frame.input for frame in lost} == {1}
    assert [frame.index for frame in lost] == [15, 18, 30]
    assert [frame.pts_seconds for frame in lost] == pytest.approx([0.5, 0.6, 1.0])
    assert [frame.cause for frame in lost] == list(causes.values())
    assert [frame.is_concealed for frame in lost] == [False, True, False]


SUMMARIES = {
    "h264": {"codec": "h264", "frames": 48, "has_b_frames": False, "rotation": 0},
    "h264_b_frames": {"has_b_frames": True, "is_vfr": False, "frame_rate": 30},
    **{"h264_one_frame": {"frames": 1}, "vfr_mp4": {"is_vfr": True}},
    "rotated_90": {"rotation": 270, "height": 128, "width": 96},
    "vp9_hidden": {"codec": "vp9", "frames": 48},
}


@pytest.mark.parametrize(("kind", "expected"), SUMMARIES.items())
def test_a_summary_describes_a_video(scanned, kind, expected):
    summary = summarize(scanned(kind))
    assert {name: getattr(summary, name) for name in expected} == expected


def test_a_summary_has_the_gop_lengths(scanned):
    gop = summarize(scanned(SynthClip(num_frames=30, gop=12))).gop
    assert (gop.minimum, gop.mean, gop.maximum) == (6, 10, 12)


def checkpoint_times(seconds, on_record=None, cost=0.0):
    """Return the times of checkpoints, among the given times of steps."""
    clock, times = FakeClock(), []

    def record_time(session):
        times.append(clock.now_ns() / 1e9)
        clock.advance(cost)
        if on_record is not None:
            on_record(session)

    recorder = Recorder("run", record().provenance, clock=clock, on_record=record_time)
    for second in seconds:
        clock.advance(max(0.0, second - clock.now_ns() / 1e9))
        recorder.checkpoint(dict)
    return times


def test_checkpoints_are_at_doubling_times_then_every_ten_seconds():
    assert checkpoint_times(range(45)) == [1, 2, 4, 8, 16, 26, 36]


def test_slow_checkpoints_are_rare():
    times = checkpoint_times(range(200), cost=0.5)
    assert [after - before for before, after in itertools.pairwise(times)] == [50, 50, 50]


def test_a_checkpoint_is_the_record_of_an_interrupted_run():
    records = []
    checkpoint_times([3], records.append)
    assert [session.outcome for session in records] == ["interrupted"]
    assert records[0].error.startswith("killed, or still running: recorded ")


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run():
    def full(session):
        raise ConfigError("no space left on device")

    assert checkpoint_times([1, 2], full) == [1, 2]


def test_without_on_record_nothing_is_recorded():
    clock = FakeClock()
    recorder = Recorder("run", record().provenance, clock=clock)
    clock.advance(100)
    recorder.checkpoint(lambda: pytest.fail("recorded without on_record"))


def test_a_checkpoint_replaces_the_files_of_an_older_run(tmp_path):
    write_run(record(steps=5, pid=1, outputs=()), tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    write_checkpoint(record(steps=7, pid=2, outputs=()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [SESSION]
    last = write_run(record(steps=9, pid=2, outputs=()), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(last.outputs)


def test_partial_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    """The sinks of the killed run are still open here."""
    images = tmp_path / "annotated" / "street"
    images.mkdir(parents=True)
    files = ("head.pt", "trace.json.gz", "annotated.mp4", "annotated-3.mp4")
    others = [images / "1.png", *(tmp_path / name for name in files)]
    for path in others:
        partial_of(path).write_bytes(b"half")
    with ExitStack() as sinks:
        sinks.enter_context(closing(open_boxes("parquet", tmp_path, [])))
        sinks.enter_context(closing(open_predictions("parquet", tmp_path, [], top_k=1)))
        sinks.enter_context(closing(CocoFile(tmp_path, [], ClassNames(names=None))))
        assert len(list(tmp_path.rglob(".*.partial"))) == 9
        prepare_folder(tmp_path)
        assert list(tmp_path.rglob(".*.partial")) == []


def test_partial_files_of_other_programs_remain(tmp_path: Path) -> None:
    others = [partial_of(tmp_path / name) for name in ("movie.mp4", "session.json.12-0")]
    for path in others:
        path.write_bytes(b"half")
    prepare_folder(tmp_path)
    assert all(path.exists() for path in others)
