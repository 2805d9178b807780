"""Pictures: what samples show of frames, by number: one of a frame for all samples, or several."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.decode.frame_outputs import Pixels
from headrace.errors import ConfigError
from headrace.loaders.epochs import RankBatch
from headrace.loaders.video_set import VideoSet
from headrace.video.frame_format import FrameFormat

_LARGEST = 2**63 - 1


class FrameView(Protocol):
    """How a frame becomes a picture."""

    @property
    def shape(self) -> FrameFormat:
        """What a decoder makes of it."""
        ...

    def finish(self, picture: Pixels) -> None:
        """Do the rest to what the decoder made, uint8 [H, W, 3], in place, where it lies."""


class SampleViews(Protocol):
    """How frames of each video become pictures, by the sample that shows them. Threads share it."""

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of all pictures."""
        ...

    @property
    def is_by_sample(self) -> bool:
        """Whether each sample shows frames in its own way, so that few share a picture."""
        ...

    def numbers(self, epoch: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [N], at least 0: samples of one number show a frame alike."""
        ...

    def framing(self, video: int, number: int) -> FrameView:
        """Return how frames of a video become pictures in samples of a number."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameViews:
    """The pictures of a video set by their ids: that of the frame, and of how it is shown.

    Without framings there is one picture of each frame, and its id is that of the frame.
    """

    videos: VideoSet
    framings: SampleViews | None = None

    def ids(self, step: RankBatch, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of `frames`, int64 [N] or [N, T], as the samples of a step show them.

        Raises:
            ConfigError: there are more pictures than int64 can number.
        """
        if self.framings is None or not frames.size:
            return frames
        numbers = self.framings.numbers(step.epoch, step.slots)
        if int(numbers.max()) >= _LARGEST // self._num_frames:
            raise ConfigError(
                f"epoch {step.epoch} of {self._num_frames} frames has more pictures than can be "
                "numbered; begin with a lower epoch"
            )
        return frames + (numbers * self._num_frames).reshape(-1, *[1] * (frames.ndim - 1))

    def frames(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of the frames that pictures show."""
        return ids if self.framings is None else ids % self._num_frames

    def gop_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the id of the GOP that each picture is decoded from."""
        return self.videos.decoded_population.gop_of(self.frames(ids))

    def framing(self, video: int, picture: int) -> FrameView | None:
        """Return how a picture, which is of a video, is made; None: as all are."""
        if self.framings is None:
            return None
        return self.framings.framing(video, picture // self._num_frames)

    @property
    def _num_frames(self) -> int:
        return self.videos.population.num_frames
