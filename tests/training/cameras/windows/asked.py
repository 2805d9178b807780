"""What tests ask of loaders of windows: three moments, two apart, before every third one."""

from headrace.sampling.moments import Moments
from headrace.training.cameras.augment import ClipAugment
from headrace.training.cameras.view import CameraView
from training.cameras.clips import LENGTHS

WINDOW = {"num_moments": 3, "stride": 2, "keys": Moments.every(3)}
ALL = {(clip, key) for clip, length in enumerate(LENGTHS.values()) for key in range(0, length, 3)}
VIEW = CameraView(resize=0.5, crop=(20, 40), anchor="bottom")
CHANCE = ClipAugment(scale=(0.8, 1.3), slides=True, flip=0.5, rotate_degrees=(-9, 9), alike=False)
FLIPS = ClipAugment(flip=0.5)


def facts(clip, moment):
    return {"of": (clip, moment.number), "frames": dict(moment.frames)}


WAYS = {
    "plain": {},
    "view": {"view": VIEW},
    "chance": {"view": VIEW, "augment": CHANCE},
    "flips": {"augment": FLIPS},
    "metadata": {"metadata": facts, "on_error": "mask"},
}


def keys(batches) -> list[tuple[int, int]]:
    """Return (clip, key moment) of each window, where the key is the last moment."""
    return [
        (clip, moments[-1])
        for batch in batches
        for clip, moments in zip(batch.clip.tolist(), batch.index.tolist(), strict=True)
    ]
