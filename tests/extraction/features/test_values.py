"""Values of features: samples, chunks, results and cache keys."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from cache.made import key
from extraction.features.running import sampling
from headrace.cache.cache_url import open_cache
from headrace.cache.key import CacheEntry, decode, encode
from headrace.decode.decoder_config import DecoderConfig
from headrace.errors import CacheError
from headrace.extraction.features.feature_options import MAX_SAMPLES, feature_chunks
from headrace.extraction.features.feature_result import (
    ChunkResult,
    Lost,
    ResultInfo,
    Samples,
    Times,
)
from headrace.extraction.features.model_signature import KeyMaker, Lookup, decode_facts
from headrace.extraction.features.model_spec import (
    ModelSignature,
    Numerics,
    OwnModel,
    SampleSpec,
    TorchvisionModelSpec,
    asked_of,
    model_of_asked,
    numerics_of_asked,
)
from headrace.planning.chunks import Chunk
from headrace.testing.synth import SynthClip
from headrace.video.frame_format import Crop, FrameFormat

CHUNK = Chunk(video=3, start=0, stop=21, frames=4)


@pytest.fixture
def index(scanned):
    return scanned(SynthClip(num_frames=600, gop=25, size=(64, 64)))


STARTS = [
    (sampling("every 200"), [0, 200, 400], [[0], [200], [400]]),
    (sampling("every 200", 3, 100), [0, 200], [[0, 100, 200], [200, 300, 400]]),
    (sampling("every 300", 300), [0, 300], [range(300), range(300, 600)]),
    (sampling("every 1", 600), [0], [range(600)]),
    (sampling("every 1", 301, 2), [], []),
]


@pytest.mark.parametrize(("samples", "starts", "frames"), STARTS)
def test_samples_start_at_selected_frames_and_fit_into_the_video(index, samples, starts, frames):
    actual = samples.starts(index)
    assert actual.tolist() == starts
    assert samples.frames(actual).tolist() == [list(sample) for sample in frames]


MODELS = [
    OwnModel(build="a.b:c"),
    TorchvisionModelSpec(name="resnet18", weights="/w.pth", layer="fc"),
    TorchvisionModelSpec(name="resnet18", weights="none", prep_level="simple"),
]


def test_sampling_and_model_survive_a_request():
    for samples in (SampleSpec(), sampling("fps 1/2"), sampling("every 16", 8, 2)):
        assert SampleSpec.of_asked(samples.asked()) == samples
    numerics = Numerics(device="cuda", precision="float16", dtype="float16")
    for spec in MODELS:
        asked = asked_of(spec, numerics)
        assert (model_of_asked(asked), numerics_of_asked(asked)) == (spec, numerics)


def test_a_request_has_the_path_of_a_checkpoint_but_not_the_index_of_a_gpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = TorchvisionModelSpec(name="resnet18", weights="w.pth")
    asked = asked_of(spec, Numerics(device="cuda:1"))
    assert asked == asked_of(spec, Numerics(device="cuda:3"))
    assert asked["weights"] == str(tmp_path / "w.pth")


@pytest.mark.parametrize("sample_bytes", [4, 2048 * 4, 400_000, 50 << 20])
@pytest.mark.parametrize("samples", [sampling("every 1"), sampling("every 7", 16, 2)])
def test_each_sample_is_in_one_chunk_and_chunks_are_small(index, samples, sample_bytes):
    chunks = feature_chunks(3, index, samples, sample_bytes=sample_bytes)
    starts = samples.starts(index)
    assert np.concatenate([chunk.of(starts) for chunk in chunks]).tolist() == starts.tolist()
    assert [len(chunk.of(starts)) for chunk in chunks] == [chunk.frames for chunk in chunks]
    assert all(c.frames == 1 or c.frames * sample_bytes <= 4 << 20 for c in chunks)
    assert max(chunk.frames for chunk in chunks) <= MAX_SAMPLES
    assert [chunk.name for chunk in chunks] == sorted({chunk.name for chunk in chunks})


def result(**fields):
    samples = Samples(
        index=np.array([0, 10, 20]),
        pts=np.array([0, 512, 1024]),
        is_concealed=np.array([False, True, False]),
        features=np.arange(12, dtype=np.float16).reshape(3, 2, 2),
    )
    defaults = {
        "size": (720, 1280),
        "time_base": Fraction(1, 12800),
        "samples": samples,
        "lost": (Lost(index=5, cause="damaged: ä"),),
        "made": ResultInfo(times=Times(decode_ms=1.5), worker="worker 1", started_seconds=2.0),
    }
    return ChunkResult(chunk_id=CHUNK.name, **{**defaults, **fields})


FACTS = ModelSignature(
    shape=(2, 2), layer="fc", origin="here", preprocess={"a": 1}, model={"b": 2}, numerics={}
)


def test_a_result_survives_a_cache_entry():
    before = result()
    arrays = decode(encode(CacheEntry(key(), before.arrays()))).arrays
    after = ChunkResult.of_arrays(CHUNK, arrays, before.made)
    for name in ("made", "size", "time_base", "lost"):
        assert getattr(after, name) == getattr(before, name)
    for name, array in vars(before.samples).items():
        decoded = getattr(after.samples, name)
        assert decoded.dtype == array.dtype
        np.testing.assert_array_equal(decoded, array)


def test_a_result_of_another_chunk_is_an_error():
    arrays = result().arrays()
    other = Chunk(video=0, start=0, stop=50, frames=5)
    with pytest.raises(CacheError, match="it has 4 samples, not 5"):
        ChunkResult.of_arrays(other, arrays, ResultInfo())
    zeros, extra = np.zeros(3, np.uint8), arrays["pts"]
    for invalid in ({}, {**arrays, "facts": zeros}, {**arrays, "extra": extra}):
        with pytest.raises(CacheError, match=f"is not a result of chunk {CHUNK.name}"):
            ChunkResult.of_arrays(CHUNK, invalid, ResultInfo())


def test_a_failed_chunk_has_no_samples():
    kind = {"shape": (512,), "dtype": "float16"}
    failed = ChunkResult.failed(CHUNK, "it is gone", **kind, made=ResultInfo())
    assert (failed.status, failed.samples.features.shape) == ("failed", (0, 512))
    assert len(failed.samples) == 0


def keys_of(maker, index, chunks, content="sha256:1"):
    starts = maker.sampling.starts(index)
    return {maker.key_of(chunk.of(starts).tolist(), content) for chunk in chunks}


def test_keys_have_all_inputs_of_a_result_but_not_the_video_number(index):
    samples = sampling("every 7", 4, 2)
    maker = KeyMaker(facts=FACTS, sampling=samples, on_error="skip")
    chunks, renumbered = (feature_chunks(n, index, samples, sample_bytes=4) for n in (0, 9))
    keys = keys_of(maker, index, chunks)
    assert len(keys) == len(chunks)
    assert keys_of(maker, index, renumbered) == keys
    makers = [
        *(maker, replace(maker, on_error="conceal")),
        *(replace(maker, sampling=sampling("every 7", *shape)) for shape in [(4, 1), (5, 2), ()]),
    ]
    first_keys = set().union(*(keys_of(maker, index, chunks[:1]) for maker in makers))
    assert len(first_keys | keys_of(maker, index, chunks[:1], "sha256:2")) == 6


def test_a_crop_is_in_the_key_and_whole_frames_add_nothing(index):
    maker = KeyMaker(facts=FACTS, sampling=sampling("every 300"), on_error="skip")

    def key_of(shape):
        return replace(maker, shape=shape).key_of([0, 300], "sha256:1")

    whole, crops = key_of(FrameFormat()), [Crop.parse(f"32x48+{top}+16") for top in (0, 8)]
    assert whole == maker.key_of([0, 300], "sha256:1")
    assert {"crop", "size", "fit", "interpolation"}.isdisjoint(whole.decode)
    cropped = [key_of(FrameFormat(crop=crop)) for crop in crops]
    assert [key.decode for key in cropped] == [
        {**whole.decode, "crop": "32x48+0+16"},
        {**whole.decode, "crop": "32x48+8+16"},
    ]
    assert len({whole, *cropped}) == 3
    # The key of whole frames, unchanged since before crops existed.
    assert json.loads(whole.text)["decode"] == decode_facts(DecoderConfig(), on_error="skip")


def test_results_of_an_uncached_model_are_not_looked_up(index, tmp_path):
    cached = KeyMaker(facts=FACTS, sampling=sampling(), on_error="skip")
    uncached = replace(cached, facts=replace(FACTS, uncached="it is a lambda"))
    chunks = feature_chunks(0, index, sampling(), sample_bytes=4)
    with open_cache(str(tmp_path / "results.sqlite")) as cache:
        lookups = [Lookup({0: index}, maker, cache, 4, {}) for maker in (cached, uncached)]
        assert [lookup.is_needed for lookup in lookups] == [True, False]
        assert list(lookups[1].results(chunks)) == []
        assert lookups[1].contents == {}
