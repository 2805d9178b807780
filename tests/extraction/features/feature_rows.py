"""Rows of features for tests, whose values are frame indices."""

from fractions import Fraction

import numpy as np
import pyarrow.parquet

from headrace.extraction.features import feature_result
from headrace.extraction.features.feature_table import TableFacts
from headrace.extraction.features.table_store import write_tables


def facts(**fields):
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
            **fields,
        }
    )


def row(name, start, stop, *, shape=(4,), dtype="float32", step=2, **fields):
    """Return samples at every second index of [start, stop); values of a feature are its index."""
    index = np.arange(start, stop, step)
    features = np.broadcast_to(index.reshape(-1, *(1 for _ in shape)), (len(index), *shape))
    return feature_result.ChunkResult(
        **{
            "chunk_id": f"{name}-{start:08d}-{stop:08d}",
            "video": feature_result.VideoName(
                name=name, path=f"/data/{name}.mp4", content="sha256:89ab"
            ),
            "size": (360, 640),
            "time_base": Fraction(1, 15360),
            "samples": feature_result.Samples(
                index=index,
                pts=index * 512,
                is_concealed=index % 4 == 0,
                features=features.astype(dtype),
            ),
            "lost": (feature_result.Lost(index=stop + 1, cause="damaged"),),
            "made": feature_result.ResultInfo(
                times=feature_result.Times(decode_ms=1.5, model_ms=2.5),
                is_cached=True,
                worker="w-1",
            ),
            **fields,
        }
    )


def failed(name, start, stop, error="crashed", **fields):
    return row(name, start, start, lost=(), error=error, **fields)


def write_folder(folder, **fields):
    """Write the tables of two runs, with three videos.

    `a` has 20 samples, and a chunk that failed in the first run; `b` has 5 samples, `c` none.
    """
    table_facts = facts(**fields)
    kind = {"shape": table_facts.shape, "dtype": table_facts.dtype}
    folder.mkdir(exist_ok=True)
    for rows in (
        [
            row("a", 20, 40, chunk_id="00000-a-2", **kind),
            failed("a", 0, 20, chunk_id="00000-a-1", **kind),
            failed("c", 0, 9, chunk_id="00002-c", **kind),
        ],
        [
            row("b", 0, 10, chunk_id="00001-b", **kind),
            row("a", 0, 20, chunk_id="00000-a-1", lost=(), **kind),
        ],
    ):
        list(write_tables(folder, rows, table_facts))
    return folder


def wide_folder(folder):
    """Write one video with a few MB of features."""
    folder.mkdir()
    list(write_tables(folder, [row("a", 0, 4000, shape=(64,))], facts(shape=(64,))))
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def damage_features(path):
    """Flip one bit of the features in a table."""
    content = bytearray(path.read_bytes())
    column = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(14)
    assert column.path_in_schema.startswith("features.")
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
