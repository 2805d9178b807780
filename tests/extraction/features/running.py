"""Running an engine on videos, and the plain loop that its features are held against."""

from collections import defaultdict
from contextlib import closing

import numpy as np

from decode.linear import linear_frames
from headrace.decode.open_decoder import open_index
from headrace.extraction.features import model_spec
from headrace.extraction.features.feature_engine import NO_HOOKS, FeatureEngine
from headrace.extraction.features.feature_options import feature_chunks
from headrace.extraction.features.load_feature_model import load_feature_model
from headrace.models.precision_support import operation_threads
from headrace.sampling.selection import selection_of

CPU = model_spec.Numerics()
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
"""What another size of batch may move a feature by: other kernels sum in another order."""


def sampling(frames="every 3", num_frames=None, stride=1):
    clip = (
        None if num_frames is None else model_spec.ClipShape(num_frames=num_frames, stride=stride)
    )
    return model_spec.Sampling(selection=selection_of(frames), clip=clip)


def own(name):
    return model_spec.OwnModel(build=f"extraction.features.own:{name}")


def listed(name="squeezenet1_1", **given):
    return model_spec.TorchvisionModelSpec(name=name, weights="none", **given)


def loaded(spec, samples, numerics=CPU):
    return load_feature_model(spec, samples, numerics)


def chunks_of(indexes, samples, *, most=8):
    """Chunks of at most so many samples, in the order of the videos."""
    return [
        chunk
        for video, index in enumerate(indexes)
        for chunk in feature_chunks(video, index, samples, sample_bytes=(4 << 20) // most)
    ]


def running(spec, paths, samples, *, numerics=CPU, chunks=None, hooks=NO_HOOKS, most=8, **given):
    """Begin; close what it returns, which yields the results of chunks as they are complete."""
    options = {name: given.pop(name) for name in ("batch_size", "decoders") if name in given}
    indexes = [open_index(path) for path in paths]
    engine = FeatureEngine(
        spec if hasattr(spec, "prepare") else loaded(spec, samples, numerics),
        samples,
        model_spec.WorkerResources(threads=1, **options),
        index_of=given.pop("index_of", indexes.__getitem__),
        hooks=hooks,
        **given,
    )
    return closing(engine.run(chunks or chunks_of(indexes, samples, most=most)))


def run(*asked, **given):
    """Return the results of all chunks, in the order of their frames."""
    with running(*asked, **given) as results:
        return sorted(results, key=lambda result: result.chunk_id)


def by_video(results):
    """Number of each video -> its features, [n, ...]."""
    found = defaultdict(list)
    for result in results:
        found[int(result.chunk_id[:5])].append(result.samples.features)
    return {video: np.concatenate(parts) for video, parts in found.items()}


def features(*asked, **given):
    return by_video(run(*asked, **given))


def near(found, wanted):
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, **TOLERANCE)


def equal(found, wanted):
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)


def expected(model, paths, samples):
    """Features of videos by a plain loop: decoded in one go, each sample by itself."""
    return {video: _by_loop(model, path, samples) for video, path in enumerate(paths)}


def _by_loop(model, path, samples):
    index = open_index(path)
    frames = linear_frames(path)
    height, width = model.size or index.info.upright_size
    assert (height, width) == frames[0].shape[:2], "the plain loop resizes nothing"
    found = []
    with operation_threads(1):
        for wanted in samples.frames(samples.starts(index)):
            seen = model.prepare(np.stack([frames[number] for number in wanted]))
            batch = seen if samples.clip is None else seen.transpose(0, 1)[None]
            found.append(model.run(batch))
    return np.concatenate(found)
