"""WindowFramings: how frames become pictures of windows, which chance may treat each in its way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from headrace.training.cameras.augment import Drawn
from headrace.training.cameras.framing import Framing
from headrace.training.cameras.views import CameraViews

_MOST_FLIPS = 16
"""Cameras that flip each by itself, at most, for windows to share pictures."""
_MADE = 4096
"""Framings that are kept, at some 500 bytes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowFramings:
    """Views of each camera, and chance drawn once for each window; a `Framings`.

    The number of a window says what chance made of it: where it stands among the windows of all
    epochs; where chance does nothing but flip, which cameras are flipped; and 0 without chance.

    Pictures wait as they are delivered, each window's by itself, not as they were decoded, for all:
    frames of 1600x900 take four times the memory of 256x704. Rehearsed for 1 GiB and windows of 8
    moments of 6 cameras, 2.3 frames are decoded for each that is delivered, and it would be 3.6.
    """

    views: CameraViews
    seed: int
    windows: int
    """Of an epoch."""

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of all pictures.

        Raises:
            ConfigError: they differ.
        """
        return self.views.common_size(instead="")

    @property
    def is_by_sample(self) -> bool:
        """Whether each window shows frames in its own way."""
        return self.views.augment is not None and not self._shares_flips

    def numbers(self, epoch: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each window, int64 [N]: windows of one show a frame alike."""
        if self.views.augment is None:
            return np.zeros(len(slots), np.int64)
        if self._shares_flips:
            return np.array([self._flips(epoch, slot) for slot in slots.tolist()], np.int64)
        return epoch * self.windows + slots

    def framing(self, video: int, number: int) -> Framing:
        """Return how frames of a video, of all cameras clip by clip, are framed in a window."""
        return self._kept(video, number)

    def matrices(self, clips: Sequence[int], numbers: Sequence[int]) -> NDArray[np.float64]:
        """Return float64 [N, C, 3, 3], `image_matrix` of windows of clips in the set."""
        cameras = len(self._cameras)
        return np.array(
            [
                [self.framing(clip * cameras + each, number).matrix for each in range(cameras)]
                for clip, number in zip(clips, numbers, strict=True)
            ]
        )

    @property
    def _cameras(self) -> tuple[str, ...]:
        return self.views.cameras.cameras

    @cached_property
    def _shares_flips(self) -> bool:
        augment = self.views.augment
        return augment is not None and augment.only_flips and self._drawn_apart <= _MOST_FLIPS

    @property
    def _drawn_apart(self) -> int:
        """How many cameras are drawn each by itself."""
        return 1 if self.views.augment is None or self.views.augment.alike else len(self._cameras)

    def _flips(self, epoch: int, slot: int) -> int:
        """Return a bit for each camera that is drawn by itself: whether it is flipped."""
        drawn = (self._draw(epoch, slot, camera) for camera in range(self._drawn_apart))
        return sum(each.is_flipped << camera for camera, each in enumerate(drawn))

    def _draw(self, epoch: int, slot: int, camera: int) -> Drawn:
        assert self.views.augment is not None
        return self.views.augment.draw(seed=self.seed, epoch=epoch, of=slot, camera=camera)

    @cached_property
    def _kept(self) -> Callable[[int, int], Framing]:
        return lru_cache(maxsize=_MADE)(self._made)

    def _made(self, video: int, number: int) -> Framing:
        clip, camera = divmod(video, len(self._cameras))
        return self.views.framed(clip, camera, self._drawn(number, camera))

    def _drawn(self, number: int, camera: int) -> Drawn:
        augment = self.views.augment
        if augment is None:
            return Drawn()
        if self._shares_flips:
            place = camera if self._drawn_apart > 1 else 0
            return augment.fixed(is_flipped=bool(number >> place & 1))
        return self._draw(*divmod(number, self.windows), camera)
