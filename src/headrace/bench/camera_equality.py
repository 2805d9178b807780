"""Whether camera loaders deliver the pixels of a bare PyAV loop; asked before timing."""

from collections.abc import Collection
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from headrace.bench.camera_subset import CameraPart
from headrace.decode.bare_loop import plain_frames
from headrace.decode.index_store import IndexStore
from headrace.errors import DecodeError
from headrace.training.cameras.aligned import AlignedClip
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from headrace.video.stream_index import StreamIndex

_MOMENTS = 8


def check_equal_cameras(
    part: CameraPart, clip: AlignedClip, store: IndexStore, size: tuple[int, int] | None
) -> int:
    """Hold the first frames of each camera of the first clip against a bare PyAV loop.

    Returns how many were compared, of a loader and a dataset: at most 8 for each camera and both.

    Raises:
        DecodeError: one differs in any bit; names it.
    """
    layout, alignment = part.layout, part.alignment
    count = min(_MOMENTS, len(clip))
    with (
        CameraLoader(layout, group_num=1, size=size, alignment=alignment, store=store) as loader,
        CameraStreamDataset(
            layout, num_of_set=1, size=size, alignment=alignment, store=store
        ) as dataset,
    ):
        batches = [np.asarray(batch.frames[0]) for batch in islice(loader, count)]
        sampler = CameraStreamSampler(dataset, group_num=1, rank=0, num_replicas=1)
        items = [np.asarray(dataset[cells[0]]["frames"]) for cells in islice(sampler, count)]
    compared = 0
    for camera, index in enumerate(clip.indexes):
        numbers = clip.frames[:count, camera].tolist()
        plain = _plain(index, size, numbers)
        for place, number in enumerate(numbers):
            for ours in (batches[place][camera], items[place][camera]):
                if not np.array_equal(np.moveaxis(ours, 0, -1), plain[number]):
                    raise DecodeError(
                        f"frame {number} of {index.source} is not the same from a bare PyAV loop "
                        "and from headrace, so nothing was timed; `headrace doctor --parity` "
                        "tells whether a linear read agrees with headrace",
                        source=str(index.source),
                        pts=int(index.pts[number]),
                    )
                compared += 1
    return compared


def _plain(
    index: StreamIndex, size: tuple[int, int] | None, numbers: Collection[int]
) -> dict[int, NDArray[np.uint8]]:
    """Return the frames of these numbers."""
    read = islice(plain_frames(index, size), max(numbers) + 1)
    return {number: frame for number, frame in enumerate(read) if number in numbers}
