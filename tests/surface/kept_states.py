"""Loaders of the recorded videos, one of each kind with a state."""

from pathlib import Path

import torch

import headrace

RECORDED = Path(__file__).parent / "recorded"
VIDEOS = sorted((RECORDED / "videos").glob("*.mp4"))
BATCHES = 3
"""Number of batches before the state is saved."""
_SMALL = {"size": (32, 48), "memory_budget": "64MiB", "num_threads": 1}
_CLIPS = headrace.RandomClips(num_frames=4, fps=10)
_CAMERAS = RECORDED / "index_frame.json"
LOADERS = {
    "frames": lambda: headrace.FrameLoader(VIDEOS, batch_size=8, seed=3, **_SMALL),
    "permutation": lambda: headrace.FrameLoader(
        VIDEOS, batch_size=8, sampling=headrace.ShuffledFrames(seed=3), **_SMALL
    ),
    "bursts": lambda: headrace.FrameLoader(
        VIDEOS, batch_size=8, sampling=headrace.Bursts(frames_per_burst=4, lanes=8), **_SMALL
    ),
    "proxies": lambda: headrace.FrameLoader(
        headrace.Proxies(RECORDED / "proxies"), batch_size=8, seed=3, **_SMALL
    ),
    "clips": lambda: headrace.ClipLoader(VIDEOS, clips=_CLIPS, batch_size=1, **_SMALL),
    "segments": lambda: headrace.ClipLoader(_segments(), clips=_CLIPS, batch_size=1, **_SMALL),
    "cameras": lambda: headrace.CameraLoader(_CAMERAS, group_num=2, size=(32, 48)),
    "camera windows": lambda: headrace.CameraWindowLoader(
        _CAMERAS, num_moments=2, batch_size=4, **_SMALL
    ),
    "lerobot": lambda: headrace.LeRobotLoader(
        RECORDED / "lerobot",
        delta_timestamps={"observation.images.top": [-0.1, 0.0], "action": [0.0, 0.1]},
        drop_n_last_frames=1,
        batch_size=4,
        seed=3,
        **_SMALL,
    ),
}
"""Kind → function that opens the loader."""


def taken(loader) -> dict:
    """Return the state of a loader after some batches, and the samples of the next batch."""
    batches = iter(loader)
    for _ in range(BATCHES):
        next(batches)
    return {"state": loader.state_dict(), "next": held(next(batches))}


def held(batch) -> dict[str, list]:
    """Return the samples of a batch: its entries of dtype int64, by name."""
    return {
        name: values.tolist()
        for name, values in sorted(batch.items())
        if isinstance(values, torch.Tensor) and values.dtype == torch.int64
    }


def epoch_sampler() -> headrace.EpochSampler:
    """Return a sampler of single frames."""
    return headrace.EpochSampler(headrace.FrameDataset(VIDEOS), batch_size=8)


def slot_memory() -> headrace.SlotMemory:
    """Return a memory of two values per slot."""
    return headrace.SlotMemory(torch.zeros(2))


def _segments() -> headrace.Manifest:
    return headrace.Manifest.of_rows(
        [
            {"path": str(path), "label": label, "start_seconds": start, "end_seconds": start + 0.6}
            for path in VIDEOS
            for start, label in ((0.0, "first"), (0.4, "second"))
        ]
    )
