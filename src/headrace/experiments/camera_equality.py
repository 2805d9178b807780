"""Whether camera loaders deliver the pixels of a bare PyAV loop; asked before timing."""

from itertools import islice

import numpy as np

from headrace.decode.bare_loop import plain_frames
from headrace.decode.index_store import IndexStore
from headrace.errors import DecodeError
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.datasets import CameraStreamDataset, CameraStreamSampler
from headrace.training.cameras.loader import CameraLoader
from headrace.video.camera_layout import CameraLayout

_MOMENTS = 8


def check_equal_cameras(
    layout: CameraLayout, store: IndexStore, size: tuple[int, int] | None
) -> int:
    """Hold the first frames of each camera of the first clip against a bare PyAV loop.

    Returns how many were compared, of a loader and a dataset: at most 8 for each camera and both.

    Raises:
        DecodeError: one differs in any bit; names it.
    """
    with (
        CameraLoader(layout, group_num=1, size=size, store=store) as loader,
        CameraStreamDataset(layout, num_of_set=1, size=size, store=store) as dataset,
    ):
        found = CameraSet.open(layout, store=store).clips[0]
        count = min(_MOMENTS, len(found))
        batches = [np.asarray(batch.frames[0]) for batch in islice(loader, count)]
        sampler = CameraStreamSampler(dataset, group_num=1, rank=0, num_replicas=1)
        items = [np.asarray(dataset[cells[0]]["frames"]) for cells in islice(sampler, count)]
    compared = 0
    for camera, index in enumerate(found.indexes):
        plain = list(islice(plain_frames(index, size), count))
        for place, expected in enumerate(plain):
            for ours in (batches[place][camera], items[place][camera]):
                if not np.array_equal(np.moveaxis(ours, 0, -1), expected):
                    raise DecodeError(
                        f"frame {place} of {index.source} is not the same from a bare PyAV loop "
                        "and from headrace, so nothing was timed; `headrace doctor --parity` "
                        "tells whether a linear read agrees with headrace",
                        source=str(index.source),
                        pts=int(index.pts[place]),
                    )
                compared += 1
    return compared
