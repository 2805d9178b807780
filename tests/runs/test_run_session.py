"""What a session holds of a run, and what a run that may be killed hands out as it goes."""

import itertools
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError
from headrace.models.results import ClassNames
from headrace.profiling.input_records import lost_frame, summarize
from headrace.profiling.recorder import Recorder
from headrace.profiling.stage_records import StageRecord
from headrace.profiling.steps import Step
from headrace.report.folder import SESSION, write_checkpoint, write_run
from headrace.runs.file_run import decode_ahead_record
from headrace.runs.output_folder import prepare_folder
from headrace.runs.run_session import make_step, pipeline_records
from headrace.runs.run_stages import Transfer
from headrace.runtime.item import Span
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage
from headrace.sinks.coco import CocoFile
from headrace.sinks.result_rows import open_boxes, open_predictions
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip
from headrace.video.frame_loss import FrameLoss
from report.recorded import record


def test_a_step_holds_the_work_of_each_stage_and_all_the_time_it_took():
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


def test_every_queue_names_the_stage_it_feeds_and_the_last_one_none():
    names = ("preprocess", "transfer", "model", "sink")
    line = [Stage(name=name, function=abs) for name in names]
    with Pipeline(source=range(5), stages=line, source_name="decode").run(clock=FakeClock()) as run:
        assert [item.value for item in run] == [0, 1, 2, 3, 4]
    carrier = Transfer("cuda")
    carrier.moved_bytes = 7
    stages, queues = pipeline_records(run, {"transfer": carrier})
    assert [stage.name for stage in stages] == ["decode", *names]
    assert [stage.workers for stage in stages] == [1] * 5
    assert [stage.moved_bytes for stage in stages] == [0, 0, 7, 0, 0]
    assert [stage.moved_to for stage in stages] == [None, None, "cuda", None, None]
    assert [queue.name for queue in queues] == ["decode", *names]
    assert [queue.feeds for queue in queues] == [*names, None]
    assert {queue.puts for queue in queues} == {stage.items for stage in stages} == {5}


def test_threads_that_decode_ahead_worked_or_waited_for_room():
    source = StageRecord(
        **{"name": "decode", "role": "decode", "workers": 1, "items": 9},
        **{"busy_seconds": 3.0, "starved_seconds": 0.0, "blocked_seconds": 7.0},
    )
    found = decode_ahead_record(source, 2, 12.0)
    assert (found.name, found.role, found.workers, found.items) == ("decode", "decode", 2, 9)
    assert (found.busy_seconds, found.starved_seconds, found.blocked_seconds) == (12.0, 0.0, 8.0)


def test_damaged_frames_carry_their_times_and_what_is_wrong(scanned):
    index = scanned(SynthClip())
    causes = {15: "it is damaged", 18: "what FFmpeg shows instead", 30: "it is damaged"}
    losses = [
        FrameLoss.at(index, number, cause, is_concealed=number == 18)
        for number, cause in causes.items()
    ]
    found = [lost_frame(loss, 1) for loss in losses]
    assert {frame.input for frame in found} == {1}
    assert [frame.index for frame in found] == [15, 18, 30]
    assert [frame.pts_seconds for frame in found] == pytest.approx([0.5, 0.6, 1.0])
    assert [frame.cause for frame in found] == list(causes.values())
    assert [frame.is_concealed for frame in found] == [False, True, False]


SUMMARIES = {
    "h264": {"codec": "h264", "frames": 48, "has_b_frames": False, "rotation": 0},
    "h264_b_frames": {"has_b_frames": True, "is_vfr": False, "frame_rate": 30},
    **{"h264_one_frame": {"frames": 1}, "vfr_mp4": {"is_vfr": True}},
    "rotated_90": {"rotation": 270, "height": 128, "width": 96},
    "vp9_hidden": {"codec": "vp9", "frames": 48},
}


@pytest.mark.parametrize(("kind", "expected"), SUMMARIES.items())
def test_a_summary_says_what_the_video_is(scanned, kind, expected):
    summary = summarize(scanned(kind))
    assert {name: getattr(summary, name) for name in expected} == expected


def test_a_summary_counts_frames_between_keyframes(scanned):
    gop = summarize(scanned(SynthClip(num_frames=30, gop=12))).gop
    assert (gop.minimum, gop.mean, gop.maximum) == (6, 10, 12)


def looked_at(seconds, on_record=None, cost=0.0):
    """Return at which of these seconds of a run a checkpoint was made."""
    clock, made = FakeClock(), []

    def keep(session):
        made.append(clock.now_ns() / 1e9)
        clock.advance(cost)
        if on_record is not None:
            on_record(session)

    recorder = Recorder("run", record().provenance, clock=clock, on_record=keep)
    for second in seconds:
        clock.advance(max(0.0, second - clock.now_ns() / 1e9))
        recorder.checkpoint(dict)
    return made


def test_checkpoints_come_as_the_age_doubles_then_every_ten_seconds():
    assert looked_at(range(45)) == [1, 2, 4, 8, 16, 26, 36]


def test_checkpoints_that_take_long_come_seldom():
    made = looked_at(range(200), cost=0.5)
    assert [after - before for before, after in itertools.pairwise(made)] == [50, 50, 50]


def test_a_checkpoint_is_of_a_run_that_was_ended_and_says_so():
    found = []
    looked_at([3], found.append)
    assert [session.outcome for session in found] == ["interrupted"]
    assert found[0].error.startswith("killed, or still running: recorded ")


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run():
    def full(session):
        raise ConfigError("no space left on device")

    assert looked_at([1, 2], full) == [1, 2]


def test_without_a_taker_nothing_is_recorded():
    clock = FakeClock()
    recorder = Recorder("run", record().provenance, clock=clock)
    clock.advance(100)
    recorder.checkpoint(lambda: pytest.fail("nobody takes it"))


def test_a_checkpoint_takes_the_place_of_an_older_run(tmp_path):
    write_run(record(steps=5, pid=1, outputs=()), tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    write_checkpoint(record(steps=7, pid=2, outputs=()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [SESSION]
    last = write_run(record(steps=9, pid=2, outputs=()), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(last.outputs)


def test_what_a_killed_run_had_begun_is_removed(tmp_path: Path) -> None:
    """A killed run leaves what its sinks have begun: here they are open still."""
    pictures = tmp_path / "annotated" / "street"
    pictures.mkdir(parents=True)
    files = ("head.pt", "trace.json.gz", "annotated.mp4", "annotated-3.mp4")
    others = [pictures / "1.png", *(tmp_path / name for name in files)]
    for path in others:
        partial_of(path).write_bytes(b"half")
    with ExitStack() as sinks:
        sinks.enter_context(closing(open_boxes("parquet", tmp_path, [])))
        sinks.enter_context(closing(open_predictions("parquet", tmp_path, [], top_k=1)))
        sinks.enter_context(closing(CocoFile(tmp_path, [], ClassNames(names=None))))
        assert len(list(tmp_path.rglob(".*.partial"))) == 9
        prepare_folder(tmp_path)
        assert list(tmp_path.rglob(".*.partial")) == []


def test_what_others_are_writing_there_stays(tmp_path: Path) -> None:
    theirs = [partial_of(tmp_path / name) for name in ("movie.mp4", "session.json.12-0")]
    for path in theirs:
        path.write_bytes(b"half")
    prepare_folder(tmp_path)
    assert all(path.exists() for path in theirs)
