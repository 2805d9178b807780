"""Features of a real model: equal for any workers and batches, and from a cache."""

import pytest

from extraction.features import feature_workers
from extraction.features.running import (
    CPU,
    check_close,
    check_equal,
    expected,
    listed,
    loaded,
    sampling,
)
from headrace.extraction.features.feature_extraction import FeatureExtraction
from headrace.extraction.features.feature_options import FeatureOptions
from headrace.extraction.features.feature_set import read_features
from headrace.extraction.features.load_feature_model import measure_signature
from headrace.extraction.features.model_signature import KnownFacts, request_of
from headrace.extraction.features.model_spec import WorkerResources
from headrace.testing.synth import SynthClip, write_clip

pytestmark = pytest.mark.usefixtures("forked_children")
SIZES = ((64, 96), (96, 64), (64, 96))
SAMPLES = sampling("every 4")
MODEL = listed()


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return [
        write_clip(folder / f"clip{n}", SynthClip(num_frames=24, gop=8, size=size, b_frames=2))
        for n, size in enumerate(SIZES)
    ]


@pytest.fixture
def extracted(clips, tmp_path, monkeypatch):
    """Return a function that runs an extraction; it returns video name → array, and notes."""
    monkeypatch.setattr("headrace.extraction.features.feature_options._CHUNK_PIXELS", 1.0)

    def run(name, *, batch_size=16, workers=1, cache=tmp_path / "results.sqlite", **prepared):
        options = FeatureOptions(
            sources=tuple(map(str, clips)),
            model=MODEL,
            out=tmp_path / name,
            sampling=SAMPLES,
            effort=WorkerResources(batch_size=batch_size),
            workers=workers,
            cache=str(cache),
        )
        result = FeatureExtraction.prepare(options, **prepared).run()
        assert (result.session.outcome, result.came) == ("complete", 18)
        videos = read_features(options.out)
        features = {name: video.features.numpy() for name, video in videos.items()}
        return features, result.session.notes

    return run


def test_features_equal_a_plain_loop_for_any_workers_batches_and_caches(clips, extracted):
    with KnownFacts() as known:  # in a child, test_facts.py measures it
        known.keep(request_of(MODEL, SAMPLES, CPU), measure_signature(MODEL, SAMPLES, CPU)[0], [])
    features = expected(loaded(MODEL, SAMPLES), clips, SAMPLES)
    by_loop = {path.stem: features[video] for video, path in enumerate(clips)}
    computed, _ = extracted("one", batch_size=16, workers=1)
    check_close(computed, by_loop)
    cached, notes = extracted("cached", function=feature_workers.start_no_worker)
    assert any(note.startswith("9 of 9 chunks were found in the cache") for note in notes)
    check_equal(cached, computed)
    uncached, notes = extracted("two", batch_size=1, workers=2, cache="none")
    assert not any("found in the cache" in note for note in notes)
    check_close(uncached, by_loop)
