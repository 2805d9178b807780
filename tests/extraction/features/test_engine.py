"""Features of the engine equal those of a plain loop, for any batches, chunks and threads."""

import gc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from decode.doubles_of_gpu import Double, Fails, stands_in
from decode.linear import linear_frames
from extraction.features.own import LEARNER
from extraction.features.running import (
    check_close,
    check_equal,
    chunks_of,
    expected,
    features,
    listed,
    loaded,
    own,
    run,
    running,
    sampling,
)
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.open_decoder import open_index
from headrace.errors import BackendError, ConfigError, DecodeError, OpenError
from headrace.extraction.features.feature_engine import Hooks
from headrace.extraction.features.model_spec import Numerics
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.frame_format import Crop, FrameFormat

LENGTHS, SIZES = (31, 17, 24), ((96, 128), (96, 128), (64, 80))
EVERY, CORNERS = sampling("every 1"), own("Corners")
with_decoders = pytest.mark.parametrize("decoders", [0, 2])


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return [
        write_clip(folder / f"{n}", SynthClip(num_frames=n, size=size, gop=10, b_frames=2))
        for n, size in zip(LENGTHS, SIZES, strict=True)
    ]


@pytest.fixture(scope="module")
def damaged(clips, tmp_path_factory):
    """Return a clip whose frames 10 to 19 depend on a damaged keyframe."""
    out = tmp_path_factory.mktemp("damaged") / "damaged.mp4"
    keyframe = damage.keyframe_ordinals(clips[0])[1]
    return damage.damage_packets(clips[0], out, ordinals=[keyframe])


@pytest.fixture(scope="module")
def models(clips):
    """Return a torchvision model and a custom model, each with its expected features."""
    samples = sampling("every 6")
    specs = [loaded(spec, samples) for spec in (listed(), CORNERS)]
    return [(model, expected(model, clips, samples)) for model in specs]


def indices(results):
    return np.concatenate([result.samples.index for result in results]).tolist()


def concealed(results):
    parts = [result.samples.index[result.samples.is_concealed] for result in results]
    return np.concatenate(parts).tolist()


@pytest.mark.parametrize(
    ("batch_size", "decoders", "chunk_samples"), [(1, 0, 8), (5, 0, 3), (5, 2, 2), (64, 3, 1)]
)
def test_features_equal_a_plain_loop(clips, models, batch_size, decoders, chunk_samples):
    options = {"batch_size": batch_size, "decoders": decoders, "chunk_samples": chunk_samples}
    for model, by_loop in models:
        check_close(features(model, clips, sampling("every 6"), **options), by_loop)


@with_decoders
@pytest.mark.parametrize(("stride", "hop"), [(1, 4), (2, 3), (2, 9), (3, 1)])
def test_features_of_clips_equal_a_plain_loop(clips, stride, hop, decoders):
    samples = sampling(f"every {hop}", num_frames=4, stride=stride)
    model = loaded(CORNERS, samples)
    actual = features(model, clips, samples, batch_size=3, decoders=decoders, chunk_samples=2)
    check_close(actual, expected(model, clips, samples))


def test_a_torchvision_video_model_processes_clips(clips):
    samples = sampling("every 8", num_frames=4, stride=2)
    model = loaded(listed("r3d_18"), samples)
    actual = features(model, clips[1:2], samples, batch_size=2)
    assert actual[0].shape == (2, 512)
    check_close(actual, expected(model, clips[1:2], samples))


def test_a_result_has_frame_indices_pts_and_times(clips):
    index = open_index(clips[0])
    samples = sampling("every 5", num_frames=3, stride=2)
    results = run(CORNERS, clips[:1], samples, chunk_samples=2, worker="worker 3")
    chunks = chunks_of([index], samples, chunk_samples=2)
    assert [result.chunk_id for result in results] == [chunk.name for chunk in chunks]
    assert [chunk.frames for chunk in chunks] == [len(r.samples) for r in results]
    assert indices(results) == [0, 5, 10, 15, 20, 25]
    for result in results:
        made = result.made
        assert np.array_equal(result.samples.pts, index.pts[result.samples.index])
        assert (result.size, result.time_base) == ((96, 128), index.info.time_base)
        assert (result.status, result.lost, made.worker) == ("done", (), "worker 3")
        assert made.started_seconds <= made.ended_seconds
        assert made.times.decode_ms > 0 < made.times.model_ms


def frames_decoded(clips, samples, chunk_samples):
    results = run(CORNERS, clips[:1], samples, chunk_samples=chunk_samples)
    return sum(result.made.frames_decoded for result in results)


@pytest.mark.parametrize(
    ("frames", "needed"), [("keyframes", 4), ("every 1", 31), ("at 0,1/2", 14)]
)
def test_only_needed_frames_are_decoded(clips, frames, needed):
    """Keyframes are 0, 10, 20 and 30; half a second is about frame 12."""
    assert frames_decoded(clips, sampling(frames), 256) <= needed + 2


def test_chunks_of_one_gop_decode_it_once(clips):
    assert frames_decoded(clips, EVERY, 2) == frames_decoded(clips, EVERY, 256)


def test_a_custom_module_runs_in_evaluation_mode_and_keeps_its_mode(clips):
    assert run(own("learner"), clips[:1], sampling())
    assert [part.training for part in LEARNER.modules()] == [True, True, False]
    assert int(LEARNER.norm.num_batches_tracked) == 0


def test_batches_are_filled_across_chunks_and_videos_of_one_size(clips):
    model = loaded(own("Cramped"), EVERY)
    results = run(model, clips, EVERY, batch_size=3, chunk_samples=4)
    # 48 frames of one size, 24 of the other.
    assert model.weighted.batches == [3] * 24
    assert sum(LENGTHS) == sum(len(result.samples) for result in results) == 72


@pytest.mark.parametrize(("model", "sizes"), [("small", [(24, 32)] * 3), ("SizesSeen", SIZES)])
def test_frames_have_the_size_of_the_model_or_of_their_video(clips, model, sizes):
    input_sizes = features(own(model), clips, sampling())
    for video, size in enumerate(sizes):
        assert (input_sizes[video] == size).all()


def test_a_video_shorter_than_a_clip_has_no_chunk(clips):
    samples = sampling("every 4", num_frames=10, stride=2)
    assert {chunk.video for chunk in chunks_of(map(open_index, clips), samples)} == {0, 2}


def test_results_are_float16_on_request(clips):
    float32 = features(CORNERS, clips, sampling())
    float16 = features(CORNERS, clips, sampling(), numerics=Numerics(dtype="float16"))
    assert float16[0].dtype == np.float16
    check_equal(float16, {video: rows.astype(np.float16) for video, rows in float32.items()})


def test_features_of_lower_precision_are_close(clips):
    full, half = (
        features(listed(), clips[:1], sampling("every 9"), numerics=Numerics(precision=name))[0]
        for name in ("float32", "bfloat16")
    )
    assert half.dtype == np.float32
    assert not np.array_equal(full, half)
    assert np.abs(full - half).max() < 0.05 * np.abs(full).max()


@with_decoders
def test_only_damaged_frames_are_lost_with_their_cause(damaged, decoders):
    model = loaded(CORNERS, EVERY)
    results = run(model, [damaged], EVERY, on_error="skip", decoders=decoders)
    lost = {loss.index: loss.cause for result in results for loss in result.lost}
    extracted = indices(results)
    assert set(lost) == set(range(31)) - set(extracted)
    assert set() < set(lost) <= set(range(10, 20))
    assert all("damaged" in cause for cause in lost.values())
    # Each frame equals that of a run with only this frame.
    first = chunks_of([open_index(damaged)], EVERY)[0]
    rows = np.concatenate([result.samples.features for result in results])
    for index, row in zip(extracted, rows, strict=True):
        chunk = replace(first, start=index, stop=index + 1, frames=1)
        check_close(features(model, [damaged], EVERY, chunks=[chunk]), {0: row[None]})


def test_exactly_the_clips_with_a_lost_frame_are_lost(damaged):
    frames = run(CORNERS, [damaged], EVERY)
    lost_frames = {loss.index for result in frames for loss in result.lost}
    samples = sampling("every 2", num_frames=3, stride=2)
    for result in run(CORNERS, [damaged], samples, chunk_samples=3):
        for loss in result.lost:
            assert "a frame of the clip is lost" in loss.cause
            assert {loss.index, loss.index + 2, loss.index + 4} & lost_frames
        for index in result.samples.index.tolist():
            assert not {index, index + 2, index + 4} & lost_frames


def test_concealed_frames_are_marked(damaged):
    results = run(CORNERS, [damaged], EVERY, on_error="conceal")
    assert sum(len(result.samples) for result in results) == 31
    frames = concealed(results)
    assert 0 < len(frames) <= 10
    clips = run(CORNERS, [damaged], sampling("every 1", 2, 1), on_error="conceal")
    assert {*concealed(clips)} == {n for k in frames for n in (k - 1, k) if 0 <= n < 30}


@with_decoders
def test_damage_ends_the_run_on_request(damaged, decoders):
    with pytest.raises(DecodeError, match="damaged"):
        run(CORNERS, [damaged], EVERY, on_error="raise", decoders=decoders)


def test_a_video_that_cannot_be_opened_fails_only_its_chunks(clips):
    indexes = [open_index(path) for path in clips]

    def index_of(video):
        if video == 1:
            raise OpenError("it is gone", source="b.mp4")
        return indexes[video]

    results = run(CORNERS, clips, sampling(), index_of=index_of)
    assert {(int(r.chunk_id[:5]), r.status, r.error) for r in results} == {
        (0, "done", None),
        (1, "failed", "it is gone"),
        (2, "done", None),
    }
    with pytest.raises(OpenError, match="gone"):
        run(CORNERS, clips, sampling(), index_of=index_of, on_error="raise")


@with_decoders
def test_hooks_are_called_for_each_chunk_and_frame(clips, decoders):
    calls = []
    hooks = Hooks(
        on_begun=lambda chunk: calls.append(("begun", chunk.name)),
        on_read=lambda chunk: calls.append(("read", chunk.name)),
        on_frames=lambda frames: calls.append(("frames", frames)),
        on_samples=lambda samples: calls.append(("samples", samples)),
    )
    results = run(CORNERS, clips, sampling(), hooks=hooks, decoders=decoders)
    names = [result.chunk_id for result in results]
    for hook in ("begun", "read"):
        assert sorted(name for kind, name in calls if kind == hook) == names
    assert all(calls.index(("begun", name)) < calls.index(("read", name)) for name in names)
    expected_frames = sum(len(result.samples) + len(result.lost) for result in results)
    assert sum(n for kind, n in calls if kind == "frames") == expected_frames
    of_results = sum(len(result.samples) for result in results)
    assert sum(n for kind, n in calls if kind == "samples") == of_results


@with_decoders
@pytest.mark.parametrize("double", [Double, Fails], ids=["works", "fails"])
def test_auto_gives_equal_features_and_reports_the_devices(clips, monkeypatch, double, decoders):
    on_cpu = features(CORNERS, clips, sampling())
    stands_in(monkeypatch, double)
    devices, notes = Counter(), []
    options = {"decoding": DecoderConfig(device="auto"), "decoders": decoders}
    hooks = Hooks(on_note=notes.append, on_devices=devices.update)
    check_equal(features(CORNERS, clips, sampling(), hooks=hooks, **options), on_cpu)
    # A GPU that fails at frame 2 decodes no frame of a job that starts later; the order varies.
    assert devices["cuda:0"] > 0 or double is Fails
    assert sum(devices.values()) == sum(map(len, on_cpu.values()))
    assert any("returned no frame" in note for note in notes) == (double is Fails)
    assert len(notes) == len(set(notes))


def test_chunks_are_consumed_as_needed(clips):
    chunks, taken = chunks_of(map(open_index, clips), EVERY, chunk_samples=4), []
    counted = (taken.append(chunk) or chunk for chunk in chunks)
    with running(CORNERS, clips, EVERY, chunks=counted, batch_size=4) as results:
        next(results)
        assert len(taken) <= 2 < len(chunks)


@with_decoders
def test_an_early_exit_leaves_nothing_open(clips, decoders):
    with running(
        CORNERS, clips, EVERY, batch_size=2, decoders=decoders, chunk_samples=2
    ) as results:
        next(results)
    gc.collect()


def test_batches_that_do_not_fit_are_halved_with_one_note_each(clips):
    notes = []
    model = loaded(own("Cramped"), sampling())
    hooks = Hooks(on_note=notes.append)
    halved = features(model, clips, sampling(), batch_size=8, hooks=hooks)
    assert notes == [
        "batches of 8 do not fit into memory; continuing with 4",
        "batches of 4 do not fit into memory; continuing with 2",
    ]
    check_equal(halved, features(model, clips, sampling(), batch_size=3))


def test_frames_that_cannot_be_prepared_together_are_prepared_in_halves(clips):
    model = loaded(CORNERS, sampling())

    def cramped(frames):
        if len(frames) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return model.prepare(frames)

    actual = features(replace(model, prepare=cramped), clips, sampling())
    check_equal(actual, features(model, clips, sampling()))


def test_a_failing_model_ends_the_run_with_an_error(clips):
    def fail(batch):
        raise RuntimeError("no kernel\nfor this")

    failing = loaded(listed(), sampling())
    failing.model.module.forward = fail
    with pytest.raises(BackendError, match="cannot run on cpu with batches of 5: no kernel;"):
        run(failing, clips[:1], sampling("every 7"))
    with pytest.raises(BackendError, match="full does not fit into the memory of this"):
        run(own("full"), clips, sampling())
    with pytest.raises(ConfigError, match=r"the model returned \[96, 128\] and \[64, 80\]"):
        run(own("maps"), clips, sampling())
    with pytest.raises(ConfigError, match=r"the model returned \[\] and \[3\]"):
        run(own("numbers_or_colors"), clips, sampling())


@pytest.mark.parametrize(("height", "width"), [(24, 32), (48, 64), (40, 90)])
def test_a_crop_is_resized_to_the_size_of_the_model(clips, height, width):
    crop = Crop(top=10, left=20, height=height, width=width)
    pixels = features(own("Pixels"), clips[:1], EVERY, frame_shape=FrameFormat(crop=crop))[0]
    inputs = pixels.reshape(-1, 3, 24, 32).transpose(0, 2, 3, 1).astype(np.uint8)
    frames = np.stack(linear_frames(clips[0], FrameFormat(crop=crop, size=(24, 32))))
    np.testing.assert_array_equal(inputs, frames)
    if (height, width) == (24, 32):  # no resize
        whole_frames = np.stack(linear_frames(clips[0]))
        np.testing.assert_array_equal(inputs, whole_frames[:, 10:34, 20:52])


def test_the_batch_size_is_measured_on_request(clips):
    notes = []
    hooks = Hooks(on_note=notes.append)
    actual = features(CORNERS, clips, sampling(), batch_size="auto", hooks=hooks)
    assert "was chosen" in notes[0]
    check_close(actual, features(CORNERS, clips, sampling()))


@pytest.mark.parametrize("spec", [listed(), CORNERS])
def test_runs_are_deterministic(clips, spec):
    first, second = (features(spec, clips, sampling("every 8")) for _ in range(2))
    check_equal(first, second)
