"""Features: the same as by a plain loop, however batches, chunks and threads share the work."""

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
    chunks_of,
    equal,
    expected,
    features,
    listed,
    loaded,
    near,
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
    """Its frames from 10 to 19 lean on a keyframe that is damaged."""
    out = tmp_path_factory.mktemp("damaged") / "damaged.mp4"
    keyframe = damage.keyframe_ordinals(clips[0])[1]
    return damage.damage_packets(clips[0], out, ordinals=[keyframe])


@pytest.fixture(scope="module")
def pictures(clips):
    """A model of torchvision, and a small one of the user's own; each with what it should give."""
    samples = sampling("every 6")
    models = [loaded(spec, samples) for spec in (listed(), CORNERS)]
    return [(model, expected(model, clips, samples)) for model in models]


def indices(results):
    return np.concatenate([result.samples.index for result in results]).tolist()


def concealed(results):
    marked = [result.samples.index[result.samples.is_concealed] for result in results]
    return np.concatenate(marked).tolist()


@pytest.mark.parametrize(
    ("batch_size", "decoders", "most"), [(1, 0, 8), (5, 0, 3), (5, 2, 2), (64, 3, 1)]
)
def test_features_are_those_of_a_plain_loop(clips, pictures, batch_size, decoders, most):
    given = {"batch_size": batch_size, "decoders": decoders, "most": most}
    for model, wanted in pictures:
        near(features(model, clips, sampling("every 6"), **given), wanted)


@with_decoders
@pytest.mark.parametrize(("stride", "hop"), [(1, 4), (2, 3), (2, 9), (3, 1)])
def test_features_of_clips_are_those_of_a_plain_loop(clips, stride, hop, decoders):
    samples = sampling(f"every {hop}", num_frames=4, stride=stride)
    model = loaded(CORNERS, samples)
    found = features(model, clips, samples, batch_size=3, decoders=decoders, most=2)
    near(found, expected(model, clips, samples))


def test_a_video_model_of_torchvision_sees_the_clips(clips):
    samples = sampling("every 8", num_frames=4, stride=2)
    model = loaded(listed("r3d_18"), samples)
    found = features(model, clips[1:2], samples, batch_size=2)
    assert found[0].shape == (2, 512)
    near(found, expected(model, clips[1:2], samples))


def test_a_result_tells_which_frames_and_when(clips):
    index = open_index(clips[0])
    samples = sampling("every 5", num_frames=3, stride=2)
    results = run(CORNERS, clips[:1], samples, most=2, worker="worker 3")
    chunks = chunks_of([index], samples, most=2)
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


def decoded(clips, samples, most):
    return sum(r.made.frames_decoded for r in run(CORNERS, clips[:1], samples, most=most))


@pytest.mark.parametrize(
    ("frames", "wanted"), [("keyframes", 4), ("every 1", 31), ("at 0,1/2", 14)]
)
def test_no_more_is_decoded_than_is_needed(clips, frames, wanted):
    """Keyframes are 0, 10, 20 and 30; half a second is frame 12 or so."""
    assert decoded(clips, sampling(frames), 256) <= wanted + 2


def test_chunks_of_one_gop_decode_it_once(clips):
    assert decoded(clips, EVERY, 2) == decoded(clips, EVERY, 256)


def test_a_module_of_ones_own_is_evaluated_and_keeps_its_mode(clips):
    assert run(own("learner"), clips[:1], sampling())
    assert [part.training for part in LEARNER.modules()] == [True, True, False]
    assert int(LEARNER.norm.num_batches_tracked) == 0


def test_batches_are_filled_across_chunks_and_videos_of_a_size(clips):
    model = loaded(own("Cramped"), EVERY)
    results = run(model, clips, EVERY, batch_size=3, most=4)
    # 48 frames of one size, 24 of the other.
    assert model.weighted.batches == [3] * 24
    assert sum(LENGTHS) == sum(len(result.samples) for result in results) == 72


@pytest.mark.parametrize(("model", "sizes"), [("small", [(24, 32)] * 3), ("SizesSeen", SIZES)])
def test_frames_come_in_the_size_that_a_model_wants_or_their_own(clips, model, sizes):
    found = features(own(model), clips, sampling())
    for video, size in enumerate(sizes):
        assert (found[video] == size).all()


def test_a_video_that_is_shorter_than_a_clip_has_no_chunk(clips):
    samples = sampling("every 4", num_frames=10, stride=2)
    assert {chunk.video for chunk in chunks_of(map(open_index, clips), samples)} == {0, 2}


def test_results_are_float16_where_that_is_asked_for(clips):
    wide = features(CORNERS, clips, sampling())
    short = features(CORNERS, clips, sampling(), numerics=Numerics(dtype="float16"))
    assert short[0].dtype == np.float16
    equal(short, {video: values.astype(np.float16) for video, values in wide.items()})


def test_lower_precision_is_near(clips):
    full, half = (
        features(listed(), clips[:1], sampling("every 9"), numerics=Numerics(precision=each))[0]
        for each in ("float32", "bfloat16")
    )
    assert half.dtype == np.float32
    assert not np.array_equal(full, half)
    assert np.abs(full - half).max() < 0.05 * np.abs(full).max()


@with_decoders
def test_damaged_frames_are_lost_with_their_cause_and_no_others(damaged, decoders):
    model = loaded(CORNERS, EVERY)
    results = run(model, [damaged], EVERY, on_error="skip", decoders=decoders)
    lost = {each.index: each.cause for result in results for each in result.lost}
    came = indices(results)
    assert set(lost) == set(range(31)) - set(came)
    assert set() < set(lost) <= set(range(10, 20))
    assert all("damaged" in cause for cause in lost.values())
    # Each by itself, by a decoder that runs nothing else.
    first = chunks_of([open_index(damaged)], EVERY)[0]
    for number, row in zip(
        came, np.concatenate([r.samples.features for r in results]), strict=True
    ):
        chunk = replace(first, start=number, stop=number + 1, frames=1)
        near(features(model, [damaged], EVERY, chunks=[chunk]), {0: row[None]})


def test_a_clip_with_a_lost_frame_is_lost_and_others_are_not(damaged):
    frames = run(CORNERS, [damaged], EVERY)
    bad = {each.index for result in frames for each in result.lost}
    samples = sampling("every 2", num_frames=3, stride=2)
    for result in run(CORNERS, [damaged], samples, most=3):
        for each in result.lost:
            assert "a frame of the clip is lost" in each.cause
            assert {each.index, each.index + 2, each.index + 4} & bad
        for index in result.samples.index.tolist():
            assert not {index, index + 2, index + 4} & bad


def test_damaged_frames_are_marked_where_they_are_shown(damaged):
    results = run(CORNERS, [damaged], EVERY, on_error="conceal")
    assert sum(len(result.samples) for result in results) == 31
    marked = concealed(results)
    assert 0 < len(marked) <= 10
    clips = run(CORNERS, [damaged], sampling("every 1", 2, 1), on_error="conceal")
    assert {*concealed(clips)} == {n for at in marked for n in (at - 1, at) if 0 <= n < 30}


@with_decoders
def test_damage_ends_the_run_where_that_is_asked_for(damaged, decoders):
    with pytest.raises(DecodeError, match="damaged"):
        run(CORNERS, [damaged], EVERY, on_error="raise", decoders=decoders)


def test_a_video_that_cannot_be_opened_fails_its_chunks_and_no_others(clips):
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
def test_who_watches_hears_of_each_chunk_and_frame(clips, decoders):
    heard = []
    hooks = Hooks(
        on_begun=lambda chunk: heard.append(("begun", chunk.name)),
        on_read=lambda chunk: heard.append(("read", chunk.name)),
        on_frames=lambda frames: heard.append(("frames", frames)),
        on_samples=lambda samples: heard.append(("samples", samples)),
    )
    results = run(CORNERS, clips, sampling(), hooks=hooks, decoders=decoders)
    names = [result.chunk_id for result in results]
    for word in ("begun", "read"):
        assert sorted(name for kind, name in heard if kind == word) == names
    assert all(heard.index(("begun", name)) < heard.index(("read", name)) for name in names)
    expected_frames = sum(len(result.samples) + len(result.lost) for result in results)
    assert sum(n for kind, n in heard if kind == "frames") == expected_frames
    of_results = sum(len(result.samples) for result in results)
    assert sum(n for kind, n in heard if kind == "samples") == of_results


@with_decoders
@pytest.mark.parametrize("double", [Double, Fails], ids=["works", "fails"])
def test_by_auto_features_are_equal_and_what_decoded_is_told(clips, monkeypatch, double, decoders):
    wanted = features(CORNERS, clips, sampling())
    stands_in(monkeypatch, double)
    ways, notes = Counter(), []
    given = {"decoding": DecoderConfig(device="auto"), "decoders": decoders}
    hooks = Hooks(on_note=notes.append, on_devices=ways.update)
    equal(features(CORNERS, clips, sampling(), hooks=hooks, **given), wanted)
    # A GPU that fails at frame 2 gives none of a job that begins later, and either may come first.
    assert ways["cuda:0"] > 0 or double is Fails
    assert sum(ways.values()) == sum(map(len, wanted.values()))
    assert any("returned no frame" in note for note in notes) == (double is Fails)
    assert len(notes) == len(set(notes))


def test_chunks_are_taken_as_they_are_needed(clips):
    chunks, taken = chunks_of(map(open_index, clips), EVERY, most=4), []
    counted = (taken.append(chunk) or chunk for chunk in chunks)
    with running(CORNERS, clips, EVERY, chunks=counted, batch_size=4) as results:
        next(results)
        assert len(taken) <= 2 < len(chunks)


@with_decoders
def test_what_is_left_early_leaves_nothing_open(clips, decoders):
    with running(CORNERS, clips, EVERY, batch_size=2, decoders=decoders, most=2) as results:
        next(results)
    gc.collect()


def test_batches_that_do_not_fit_are_halved_and_that_is_said_once(clips):
    notes = []
    model = loaded(own("Cramped"), sampling())
    hooks = Hooks(on_note=notes.append)
    halved = features(model, clips, sampling(), batch_size=8, hooks=hooks)
    assert notes == [
        "batches of 8 do not fit into the memory; going on with 4 at a time",
        "batches of 4 do not fit into the memory; going on with 2 at a time",
    ]
    equal(halved, features(model, clips, sampling(), batch_size=3))


def test_frames_that_cannot_be_prepared_at_once_are_prepared_by_halves(clips):
    plain = loaded(CORNERS, sampling())

    def cramped(frames):
        if len(frames) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return plain.prepare(frames)

    found = features(replace(plain, prepare=cramped), clips, sampling())
    equal(found, features(plain, clips, sampling()))


def test_what_a_model_cannot_do_ends_the_run_with_its_size_of_batches(clips):
    def fail(batch):
        raise RuntimeError("no kernel\nfor this")

    failing = loaded(listed(), sampling())
    failing.model.module.forward = fail
    with pytest.raises(BackendError, match="cannot run on cpu with batches of 5: no kernel;"):
        run(failing, clips[:1], sampling("every 7"))
    with pytest.raises(BackendError, match="full does not fit into the memory of this"):
        run(own("full"), clips, sampling())
    with pytest.raises(ConfigError, match=r"shape \[64, 80\], and of \[96, 128\] for others"):
        run(own("maps"), clips, sampling())


@pytest.mark.parametrize(("height", "width"), [(24, 32), (48, 64), (40, 90)])
def test_a_model_with_a_size_sees_the_crop_resized_to_it(clips, height, width):
    crop = Crop(top=10, left=20, height=height, width=width)
    found = features(own("Pixels"), clips[:1], EVERY, frame_shape=FrameFormat(crop=crop))
    seen = found[0].reshape(-1, 3, 24, 32).transpose(0, 2, 3, 1).astype(np.uint8)
    frames = np.stack(linear_frames(clips[0], FrameFormat(crop=crop, size=(24, 32))))
    np.testing.assert_array_equal(seen, frames)
    if (height, width) == (24, 32):  # nothing is resized: the pixels of the frame itself
        plain = np.stack(linear_frames(clips[0]))
        np.testing.assert_array_equal(seen, plain[:, 10:34, 20:52])


def test_a_batch_size_is_measured_where_that_is_asked_for(clips):
    notes = []
    hooks = Hooks(on_note=notes.append)
    found = features(CORNERS, clips, sampling(), batch_size="auto", hooks=hooks)
    assert "was chosen" in notes[0]
    near(found, features(CORNERS, clips, sampling()))


@pytest.mark.parametrize("spec", [listed(), CORNERS])
def test_the_same_again_gives_the_same_bits(clips, spec):
    first, second = (features(spec, clips, sampling("every 8")) for _ in range(2))
    equal(first, second)
