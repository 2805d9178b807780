"""Rows of features for tests: numbers that tell where they are from."""

from fractions import Fraction

import numpy as np

from headrace.extraction.features.result import Lost, Made, Samples, Times
from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.table_row import FeatureRow, VideoName


def facts(**given):
    return TableFacts(
        **{
            "model": "resnet18",
            "layer": "avgpool",
            "weights": "sha256:0123",
            "shape": (4,),
            "dtype": "float32",
            "clip_len": None,
            "stride": None,
            "sampling": "every 2",
            "request": "sha256:4567",
            **given,
        }
    )


def row(name, start, stop, *, shape=(4,), dtype="float32", step=2, **given):
    """Samples at every second index of [start, stop); each number of a feature is its index."""
    index = np.arange(start, stop, step)
    features = np.broadcast_to(index.reshape(-1, *(1 for _ in shape)), (len(index), *shape))
    return FeatureRow(
        **{
            "chunk_id": f"{name}-{start:08d}-{stop:08d}",
            "video": VideoName(name=name, path=f"/data/{name}.mp4", content="sha256:89ab"),
            "size": (360, 640),
            "time_base": Fraction(1, 15360),
            "samples": Samples(
                index=index,
                pts=index * 512,
                is_concealed=index % 4 == 0,
                features=features.astype(dtype),
            ),
            "lost": (Lost(index=stop + 1, cause="damaged"),),
            "made": Made(times=Times(decode_ms=1.5, model_ms=2.5), is_cached=True, worker="w-1"),
            **given,
        }
    )


def failed(name, start, stop, error="crashed", **given):
    return row(name, start, start, lost=(), error=error, **given)
