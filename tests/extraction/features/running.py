"""Runs of an engine on videos, and a plain loop as its reference."""

from collections import defaultdict
from contextlib import closing

import numpy as np

from decode.linear import linear_frames
from headrace.decode.open_decoder import open_index
from headrace.extraction.features import model_spec
from headrace.extraction.features.feature_engine import NO_HOOKS, FeatureEngine
from headrace.extraction.features.feature_options import feature_chunks
from headrace.extraction.features.load_feature_model import load_feature_model
from headrace.models.device import operation_threads
from headrace.sampling.selection import selection_of

CPU = model_spec.Numerics()
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}
"""Tolerance between batch sizes: other kernels sum in another order."""


def sampling(frames="every 3", num_frames=None, stride=1):
    clip = (
        None if num_frames is None else model_spec.ClipShape(num_frames=num_frames, stride=stride)
    )
    return model_spec.SampleSpec(selection=selection_of(frames), clip=clip)


def own(name):
    return model_spec.OwnModel(build=f"extraction.features.own:{name}")


def listed(name="squeezenet1_1", **given):
    return model_spec.TorchvisionModelSpec(name=name, weights="none", **given)


def loaded(spec, samples, numerics=CPU):
    return load_feature_model(spec, samples, numerics)


def chunks_of(indexes, samples, *, chunk_samples=8):
    """Return chunks of at most `chunk_samples` samples, in the order of the videos."""
    return [
        chunk
        for video, index in enumerate(indexes)
        for chunk in feature_chunks(video, index, samples, sample_bytes=(4 << 20) // chunk_samples)
    ]


def running(
    spec, paths, samples, *, numerics=CPU, chunks=None, hooks=NO_HOOKS, chunk_samples=8, **options
):
    """Return a context whose iterator yields the results of complete chunks."""
    names = ("batch_size", "decoders")
    resources = {name: options.pop(name) for name in names if name in options}
    indexes = [open_index(path) for path in paths]
    engine = FeatureEngine(
        spec if hasattr(spec, "prepare") else loaded(spec, samples, numerics),
        samples,
        model_spec.WorkerResources(threads=1, **resources),
        index_of=options.pop("index_of", indexes.__getitem__),
        hooks=hooks,
        **options,
    )
    return closing(engine.run(chunks or chunks_of(indexes, samples, chunk_samples=chunk_samples)))


def run(*arguments, **options):
    """Return the results of all chunks, in order of their frames."""
    with running(*arguments, **options) as results:
        return sorted(results, key=lambda result: result.chunk_id)


def by_video(results):
    """Return video number → its features, [n, ...]."""
    chunks = defaultdict(list)
    for result in results:
        chunks[int(result.chunk_id[:5])].append(result.samples.features)
    return {video: np.concatenate(parts) for video, parts in chunks.items()}


def features(*arguments, **options):
    return by_video(run(*arguments, **options))


def check_close(actual, expected):
    assert list(actual) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(actual[name], values, **TOLERANCE)


def check_equal(actual, expected):
    assert list(actual) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(actual[name], values)


def expected(model, paths, samples):
    """Return features of videos by a plain loop: a linear decode, and single samples."""
    return {video: _by_loop(model, path, samples) for video, path in enumerate(paths)}


def _by_loop(model, path, samples):
    index = open_index(path)
    frames = linear_frames(path)
    height, width = model.size or index.info.upright_size
    assert (height, width) == frames[0].shape[:2], "the plain loop does not resize"
    rows = []
    with operation_threads(1):
        for indices in samples.frames(samples.starts(index)):
            prepared = model.prepare(np.stack([frames[k] for k in indices]))
            batch = prepared if samples.clip is None else prepared.transpose(0, 1)[None]
            rows.append(model.run(batch))
    return np.concatenate(rows)
