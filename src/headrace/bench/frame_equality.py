"""Whether datasets and loaders deliver the baseline's pixels; asked before timing."""

from typing import Final

import torch

from headrace.bench.sampling_variants import Setting
from headrace.errors import DecodeError
from headrace.measuring.seek_baseline import SeekPerFrame
from headrace.sampling.frames import Uniform
from headrace.training.datasets import FrameDataset
from headrace.training.loader import FrameLoader

_COMPARED: Final = 16
"""Frames held against the baseline's before anything is timed."""


def check_equal(setting: Setting, plain: SeekPerFrame | None = None) -> int:
    """Hold random frames of the baseline against those of a dataset and a loader of headrace.

    Returns how many were compared, at most 16. `plain` is the baseline.

    Raises:
        DecodeError: one differs in any bit, or cannot be decoded; names the frame.
    """
    videos, size = setting.videos, setting.size
    plain = plain or SeekPerFrame(videos, size)
    sources = [index.source for index in videos.indexes]
    count = min(_COMPARED, setting.batch_size, len(plain))
    with FrameLoader(
        sources,
        batch_size=count,
        size=size,
        sampling=Uniform(),
        memory_budget=4 * count * setting.frame_bytes,
        lookahead=1,
        workers=1,
        store=setting.store,
    ) as loader:
        loaded = next(iter(loader)).frames
    wanted = Uniform().order(videos.population, 0)[:count].tolist()
    with FrameDataset(sources, size=size, store=setting.store) as dataset:
        items = dataset.__getitems__(wanted)
    for frame, item, other in zip(wanted, items, loaded, strict=True):
        expected = plain[frame]
        if not (torch.equal(item["frame"], expected) and torch.equal(other, expected)):
            raise _unequal(setting, item["video"], item["index"])
    return count


def _unequal(setting: Setting, video: int, place: int) -> DecodeError:
    index = setting.videos.indexes[video]
    return DecodeError(
        f"frame {place} of {index.source} (at {index.seconds(place):.3f} s) is not the same from "
        "the baseline and from headrace, so nothing was timed; `headrace doctor --parity` tells "
        "whether a linear read agrees with headrace",
        source=str(index.source),
        pts=int(index.pts[place]),
    )
