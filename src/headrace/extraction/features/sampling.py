"""Which frames or clips of a video give a feature each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.profiling.provenance import Scalar
from headrace.sampling.boundary import clip_span
from headrace.sampling.selection import EveryNth, Selection, selection_of
from headrace.sizes import check_integers
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class ClipShape:
    """`num_frames` frames, `stride` apart."""

    num_frames: int
    stride: int = 1
    """1 means consecutive."""

    def __post_init__(self) -> None:
        check_integers(1, num_frames=self.num_frames, stride=self.stride)

    @property
    def span(self) -> int:
        """Frames of the video from the first to the last of the clip, both included."""
        return clip_span(self.num_frames, self.stride)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Samples of a video; each gives one feature. A sample is a frame, or a clip.

    `Sampling(selection=EveryNth(16), clip=ClipShape(num_frames=16, stride=2))` is a clip of 16
    frames 2 apart that begins at each 16th frame, as long as the whole clip lies in the video.
    """

    selection: Selection = field(default_factory=lambda: EveryNth(1))
    """Which frames; of clips, at which they begin."""
    clip: ClipShape | None = None
    """None: each sample is a single frame."""

    def starts(self, index: StreamIndex) -> NDArray[np.int64]:
        """Return the index of the first frame of each sample, int64 [n], ascending.

        Empty where the video is shorter than a clip.

        Raises:
            ConfigError: the video has ended by a time that was asked for; says when it does.
        """
        found = self.selection.of(index)
        return found if self.clip is None else found[found + self.clip.span <= len(index)]

    def frames(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frames of samples, int64 [n, T], in order; T is 1 where they are frames."""
        if self.clip is None:
            return starts[:, None]
        return starts[:, None] + np.arange(0, self.clip.span, self.clip.stride)

    @property
    def frames_per_sample(self) -> int:
        """How many frames a sample has: T."""
        return 1 if self.clip is None else self.clip.num_frames

    @property
    def clip_frames(self) -> int | None:
        """How many frames a clip has; None where samples are single frames."""
        return None if self.clip is None else self.clip.num_frames

    @property
    def noun(self) -> str:
        """What a sample is called in sentences."""
        return "frame" if self.clip is None else "clip"

    def asked(self) -> dict[str, Scalar]:
        """Return it as options by name, for a request: see `of_asked`."""
        clip = self.clip
        return {
            "frames": str(self.selection),
            "clip_len": None if clip is None else clip.num_frames,
            "stride": None if clip is None else clip.stride,
        }

    @classmethod
    def of_asked(cls, asked: Mapping[str, Scalar]) -> "Sampling":
        """Return what `asked` told, which may hold other options too.

        Raises:
            ConfigError: it tells of no sampling.
        """
        num_frames, stride = asked["clip_len"], asked["stride"]
        clip = None
        if num_frames is not None:
            clip = ClipShape(num_frames=int(num_frames), stride=int(stride or 1))
        return cls(selection=selection_of(str(asked["frames"])), clip=clip)
