"""Features: the same as by a plain loop, however batches, chunks and threads share the work."""

import gc
from collections import Counter
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch

from decode.doubles_of_gpu import Double, Fails, stands_in
from extraction.features.own import LEARNER
from extraction.features.running import (
    CPU,
    TOLERANCE,
    by_video,
    chunks_of,
    expected,
    listed,
    loaded,
    own,
    run,
    sampling,
)
from headrace.decode.decoding import Decoding
from headrace.decode.open import open_index
from headrace.errors import BackendError, ConfigError, DecodeError, OpenError
from headrace.extraction.features.engine import FeatureEngine, Hooks
from headrace.extraction.features.spec import Effort, Numerics
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip

LENGTHS, SIZES = (31, 17, 24), ((96, 128), (96, 128), (64, 80))


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
    models = [loaded(spec, samples) for spec in (listed(), own("corners"))]
    return [(model, [expected(model, path, samples) for path in clips]) for model in models]


@pytest.mark.parametrize(
    ("batch_size", "decoders", "most"), [(1, 0, 8), (5, 0, 3), (5, 2, 2), (64, 3, 1)]
)
def test_features_are_those_of_a_plain_loop(clips, pictures, batch_size, decoders, most):
    samples = sampling("every 6")
    for model, features in pictures:
        found = by_video(
            run(model, clips, samples, batch_size=batch_size, decoders=decoders, most=most)
        )
        for video in range(len(clips)):
            np.testing.assert_allclose(found[video], features[video], **TOLERANCE)


@pytest.mark.parametrize("decoders", [0, 2])
@pytest.mark.parametrize(("stride", "hop"), [(1, 4), (2, 3), (2, 9), (3, 1)])
def test_features_of_clips_are_those_of_a_plain_loop(clips, stride, hop, decoders):
    samples = sampling(f"every {hop}", num_frames=4, stride=stride)
    model = loaded(own("corners"), samples)
    found = by_video(run(model, clips, samples, batch_size=3, decoders=decoders, most=2))
    for video, path in enumerate(clips):
        np.testing.assert_allclose(found[video], expected(model, path, samples), **TOLERANCE)


def test_a_video_model_of_torchvision_sees_the_clips(clips):
    samples = sampling("every 8", num_frames=4, stride=2)
    model = loaded(listed("r3d_18"), samples)
    found = by_video(run(model, clips[1:2], samples, batch_size=2))
    assert found[0].shape == (2, 512)
    for video, path in enumerate(clips[1:2]):
        np.testing.assert_allclose(found[video], expected(model, path, samples), **TOLERANCE)


def test_a_result_tells_which_frames_and_when(clips):
    samples = sampling("every 5", num_frames=3, stride=2)
    index = open_index(clips[0])
    results = run(own("corners"), clips[:1], samples, most=2, worker="worker 3")
    assert [result.chunk.samples for result in results] == [len(r.samples) for r in results]
    assert np.concatenate([r.samples.index for r in results]).tolist() == [0, 5, 10, 15, 20, 25]
    for result in results:
        assert np.array_equal(result.samples.pts, index.pts[result.samples.index])
        assert (result.size, result.time_base) == ((96, 128), index.info.time_base)
        assert (result.status, result.lost, result.made.worker) == ("done", (), "worker 3")
        assert result.made.started_seconds <= result.made.ended_seconds
        assert result.made.times.decode_ms > 0 < result.made.times.model_ms


@pytest.mark.parametrize(
    ("frames", "decoded"), [("keyframes", 4), ("every 1", 31), ("at 0,1/2", 14)]
)
def test_no_more_is_decoded_than_is_needed(clips, frames, decoded):
    """Keyframes are 0, 10, 20 and 30; half a second is frame 12 or so."""
    results = run(own("corners"), clips[:1], sampling(frames), most=256)
    assert sum(result.made.frames_decoded for result in results) <= decoded + 2


def test_chunks_of_one_gop_decode_it_once(clips):
    few, many = (
        sum(
            result.made.frames_decoded
            for result in run(own("corners"), clips[:1], sampling("every 1"), most=most)
        )
        for most in (256, 2)
    )
    assert many == few


def test_a_module_of_ones_own_is_evaluated_and_keeps_its_mode(clips):
    assert run(own("learner"), clips[:1], sampling())
    assert [part.training for part in LEARNER.modules()] == [True, True, False]
    assert int(LEARNER.norm.num_batches_tracked) == 0


def test_batches_are_filled_across_chunks_and_videos_of_a_size(clips):
    model = loaded(own("cramped"), sampling("every 1"))
    batches = model.weighted.batches
    results = run(model, clips, sampling("every 1"), batch_size=3, most=4)
    assert sum(batches) == sum(LENGTHS) == sum(len(result.samples) for result in results)
    # 48 frames of one size, 24 of the other.
    assert batches == [3] * 24


@pytest.mark.parametrize(("model", "sizes"), [("small", [(24, 32)] * 3), ("sizes_seen", SIZES)])
def test_frames_come_in_the_size_that_a_model_wants_or_their_own(clips, model, sizes):
    found = by_video(run(own(model), clips, sampling()))
    for video, size in enumerate(sizes):
        assert (found[video] == size).all()


def test_a_video_that_is_shorter_than_a_clip_has_no_chunk(clips):
    samples = sampling("every 4", num_frames=10, stride=2)
    assert {chunk.video for chunk in chunks_of(map(open_index, clips), samples)} == {0, 2}


def test_results_are_float16_where_that_is_asked_for(clips):
    wide = by_video(run(own("corners"), clips, sampling()))
    short = by_video(run(own("corners"), clips, sampling(), numerics=Numerics(dtype="float16")))
    assert short[0].dtype == np.float16
    np.testing.assert_array_equal(short[0], wide[0].astype(np.float16))


def test_lower_precision_is_near(clips):
    samples = sampling("every 9")
    full, half = (
        by_video(run(listed(), clips[:1], samples, numerics=Numerics(precision=precision)))[0]
        for precision in ("float32", "bfloat16")
    )
    assert half.dtype == np.float32
    assert not np.array_equal(full, half)
    assert np.abs(full - half).max() < 0.05 * np.abs(full).max()


@pytest.mark.parametrize("decoders", [0, 2])
def test_damaged_frames_are_lost_with_their_cause_and_no_others(damaged, decoders):
    model = loaded(own("corners"), sampling("every 1"))
    whole = run(model, [damaged], sampling("every 1"), on_error="skip", decoders=decoders)
    lost = {each.index: each.cause for result in whole for each in result.lost}
    came = np.concatenate([result.samples.index for result in whole])
    assert set(lost) == set(range(31)) - set(came.tolist())
    assert set(lost) <= set(range(10, 20))
    assert lost
    assert all("damaged" in cause for cause in lost.values())
    good = expected_rows(model, damaged, came)
    np.testing.assert_allclose(by_video(whole)[0], good, **TOLERANCE)


def expected_rows(model, path, came):
    """Features of the frames that came, by a decoder that runs nothing else."""
    found = []
    for index in came.tolist():
        one = replace(chunks_of([open_index(path)], sampling("every 1"))[0], start=index)
        chunk = replace(one, stop=index + 1, samples=1)
        [result] = run(model, [path], sampling("every 1"), chunks=[chunk])
        found.append(result.samples.features)
    return np.concatenate(found)


def test_a_clip_with_a_lost_frame_is_lost_and_others_are_not(damaged):
    frames = run(own("corners"), [damaged], sampling("every 1"))
    bad = {each.index for result in frames for each in result.lost}
    samples = sampling("every 2", num_frames=3, stride=2)
    for result in run(own("corners"), [damaged], samples, most=3):
        for each in result.lost:
            assert "a frame of the clip is lost" in each.cause
            assert {each.index, each.index + 2, each.index + 4} & bad
        for index in result.samples.index.tolist():
            assert not {index, index + 2, index + 4} & bad


def test_damaged_frames_are_marked_where_they_are_shown(damaged):
    results = run(own("corners"), [damaged], sampling("every 1"), on_error="conceal")
    assert sum(len(result.samples) for result in results) == 31
    marked = np.concatenate([r.samples.index[r.samples.is_concealed] for r in results])
    assert 0 < len(marked) <= 10
    clips = run(own("corners"), [damaged], sampling("every 1", 2, 1), on_error="conceal")
    there = np.concatenate([r.samples.index[r.samples.is_concealed] for r in clips])
    assert set(there) == {n for each in marked for n in (each - 1, each) if 0 <= n < 30}


@pytest.mark.parametrize("decoders", [0, 2])
def test_damage_ends_the_run_where_that_is_asked_for(damaged, decoders):
    with pytest.raises(DecodeError, match="damaged"):
        run(own("corners"), [damaged], sampling("every 1"), on_error="raise", decoders=decoders)


def test_a_video_that_cannot_be_opened_fails_its_chunks_and_no_others(clips):
    indexes = [open_index(path) for path in clips]

    def index_of(video):
        if video == 1:
            raise OpenError("it is gone", source="b.mp4")
        return indexes[video]

    results = run(own("corners"), clips, sampling(), index_of=index_of)
    assert {(r.chunk.video, r.status, r.error) for r in results} == {
        (0, "done", None),
        (1, "failed", "it is gone"),
        (2, "done", None),
    }
    with pytest.raises(OpenError, match="gone"):
        run(own("corners"), clips, sampling(), index_of=index_of, on_error="raise")


@pytest.mark.parametrize("decoders", [0, 2])
def test_who_watches_hears_of_each_chunk_and_frame(clips, decoders):
    heard = []
    hooks = Hooks(
        on_begun=lambda chunk: heard.append(("begun", chunk.name)),
        on_read=lambda chunk: heard.append(("read", chunk.name)),
        on_frames=lambda frames: heard.append(("frames", frames)),
    )
    results = run(own("corners"), clips, sampling(), hooks=hooks, decoders=decoders)
    names = [result.chunk.name for result in results]
    for word in ("begun", "read"):
        assert sorted(name for kind, name in heard if kind == word) == names
    assert all(heard.index(("begun", name)) < heard.index(("read", name)) for name in names)
    assert sum(n for kind, n in heard if kind == "frames") == sum(r.chunk.samples for r in results)


@pytest.mark.parametrize("decoders", [0, 2])
@pytest.mark.parametrize("double", [Double, Fails], ids=["works", "fails"])
def test_by_auto_features_are_equal_and_it_is_told_what_decoded(
    clips, monkeypatch, double, decoders
):
    samples, model = sampling(), own("corners")
    expected = by_video(run(model, clips, samples))
    stands_in(monkeypatch, double)
    ways, notes = Counter(), []
    hooks = Hooks(on_note=notes.append, on_ways=ways.update)
    auto = Decoding(device="auto")
    found = by_video(run(model, clips, samples, decoding=auto, hooks=hooks, decoders=decoders))
    assert all(np.array_equal(found[video], expected[video]) for video in expected)
    assert ways["cuda:0"] > 0
    assert sum(ways.values()) == sum(map(len, expected.values()))
    assert any("gave no frame" in note for note in notes) == (double is Fails)
    assert len(notes) == len(set(notes))


def test_chunks_are_taken_as_they_are_needed(clips):
    indexes = [open_index(path) for path in clips]
    samples, taken = sampling("every 1"), Counter()
    chunks = chunks_of(indexes, samples, most=4)

    def counted():
        for chunk in chunks:
            taken["chunks"] += 1
            yield chunk

    engine = FeatureEngine(
        loaded(own("corners"), samples),
        samples,
        Effort(batch_size=4),
        index_of=indexes.__getitem__,
    )
    with closing(engine.run(counted())) as results:
        next(results)
        assert taken["chunks"] <= 2 < len(chunks)


@pytest.mark.parametrize("decoders", [0, 2])
def test_what_is_left_early_leaves_nothing_open(clips, decoders):
    indexes = [open_index(path) for path in clips]
    samples = sampling("every 1")
    engine = FeatureEngine(
        loaded(own("corners"), samples),
        samples,
        Effort(batch_size=2, decoders=decoders),
        index_of=indexes.__getitem__,
    )
    with closing(engine.run(chunks_of(indexes, samples, most=2))) as results:
        next(results)
    gc.collect()


def test_batches_that_do_not_fit_are_halved_and_that_is_said_once(clips):
    notes = []
    model = loaded(own("cramped"), sampling())
    found = run(model, clips, sampling(), batch_size=8, hooks=Hooks(on_note=notes.append))
    assert notes == [
        "batches of 8 do not fit into the memory; going on with 4 at a time",
        "batches of 4 do not fit into the memory; going on with 2 at a time",
    ]
    enough = by_video(run(model, clips, sampling(), batch_size=3))
    for video, features in by_video(found).items():
        np.testing.assert_array_equal(features, enough[video])


def test_where_not_one_sample_fits_that_is_said(clips):
    with pytest.raises(BackendError, match="full does not fit into the memory of this"):
        run(own("full"), clips, sampling())


def test_frames_that_cannot_be_prepared_at_once_are_prepared_by_halves(clips):
    plain = loaded(own("corners"), sampling())

    def cramped(frames):
        if len(frames) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return plain.prepare(frames)

    found = by_video(run(replace(plain, prepare=cramped), clips, sampling()))
    for video, features in by_video(run(plain, clips, sampling())).items():
        np.testing.assert_array_equal(found[video], features)


def test_a_model_that_fails_in_itself_is_told_with_its_size_of_batches(clips):
    def fail(batch):
        raise RuntimeError("no kernel\nfor this")

    plain = loaded(listed(), sampling())
    plain.model.module.forward = fail
    with pytest.raises(BackendError, match="cannot run on cpu with batches of 5: no kernel;"):
        run(plain, clips[:1], sampling("every 7"))


def test_a_batch_size_is_measured_where_that_is_asked_for(clips):
    notes = []
    hooks = Hooks(on_note=notes.append)
    found = by_video(run(own("corners"), clips, sampling(), batch_size="auto", hooks=hooks))
    assert "was chosen" in notes[0]
    plain = by_video(run(own("corners"), clips, sampling()))
    np.testing.assert_allclose(found[0], plain[0], **TOLERANCE)


def test_features_must_be_of_one_shape(clips):
    with pytest.raises(ConfigError, match=r"shape \[64, 80\], and of \[96, 128\] for others"):
        run(own("maps"), clips, sampling())


@pytest.mark.parametrize("of", ["squeezenet1_1", "corners"])
def test_the_same_again_gives_the_same_bits(clips, of):
    spec = listed(of) if of != "corners" else own(of)
    samples = sampling("every 8")
    first, second = (by_video(run(spec, clips, samples, numerics=CPU)) for _ in range(2))
    for video in first:
        np.testing.assert_array_equal(first[video], second[video])
