"""Features of a real model by whole runs: the same by any workers and batches, and from a cache."""

import pytest

from extraction.features import feature_workers
from extraction.features.running import equal, expected, listed, loaded, near, sampling
from headrace.extraction.features.feature_extraction import FeatureExtraction
from headrace.extraction.features.feature_options import FeatureOptions
from headrace.extraction.features.feature_set import read_features
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
    """Return a function that runs an extraction of chunks of a GOP; name of each video -> array."""
    monkeypatch.setattr("headrace.extraction.features.feature_options._CHUNK_PIXELS", 1.0)

    def run(name, *, batch_size=16, workers=1, cache=tmp_path / "results.sqlite", **given):
        options = FeatureOptions(
            sources=tuple(map(str, clips)),
            model=MODEL,
            out=tmp_path / name,
            sampling=SAMPLES,
            effort=WorkerResources(batch_size=batch_size),
            workers=workers,
            cache=str(cache),
        )
        came = FeatureExtraction.prepare(options, **given).run()
        assert (came.session.outcome, came.came) == ("complete", 18)
        found = read_features(options.out)
        return {name: video.features.numpy() for name, video in found.items()}, came.session.notes

    return run


def test_features_are_those_of_a_plain_loop_by_any_workers_and_batches(clips, extracted):
    by_loop = expected(loaded(MODEL, SAMPLES), clips, SAMPLES)
    wanted = {path.stem: by_loop[video] for video, path in enumerate(clips)}
    fresh, _ = extracted("one", batch_size=16, workers=1)
    near(fresh, wanted)
    found, notes = extracted("cached", function=feature_workers.nothing_is_left_to_do)
    assert any(note.startswith("9 of 9 chunks were found in the cache") for note in notes)
    equal(found, fresh)
    found, notes = extracted("two", batch_size=1, workers=2, cache="none")
    assert not any("found in the cache" in note for note in notes)
    near(found, wanted)
