"""Map-style datasets for a stock DataLoader: clips of videos, and single frames of all of them."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, TypedDict, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.decode.decoding import ON_CPU, Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.pool import DecoderPool
from headrace.decode.protocol import DecodeJob
from headrace.decode.reading import read_whole
from headrace.errors import ConfigError
from headrace.planning.stretches import stretches
from headrace.sampling.boundary import Boundary, clip_indices, clip_span
from headrace.sampling.population import Population
from headrace.sampling.random import Draws, Purpose
from headrace.training.decoding_dataset import DecodingDataset
from headrace.training.devices import check_gpu
from headrace.training.video_set import VideoSet
from headrace.video.fitting import Fit
from headrace.video.shape import FrameShape, Interpolation
from headrace.video.source import Source

Transform = Callable[[torch.Tensor], Any]
"""What is made of the uint8 frames of one item, in the process that decoded them."""

_Item = TypeVar("_Item")


class FrameItem(TypedDict):
    """One frame and where it is from."""

    frame: Any
    """uint8 [3, H, W] in [0, 255], RGB, upright; or what `transform` made of it."""
    video: int
    """Place of the video in the list that was given."""
    index: int
    """Place of the frame in presentation order."""
    pts_seconds: float
    """Presentation time of the frame."""


class _VideoDataset(DecodingDataset[_Item], Generic[_Item]):
    """Videos whose indexes are read once, here, and whose files each process opens for itself.

    Workers that are forked share the indexes, those that are spawned are sent them; none reads
    them from disk. No open file goes from one process to another. One thread per process.
    """

    def __init__(
        self,
        videos: Iterable[Source | str | os.PathLike[str]],
        shape: FrameShape,
        transform: Transform | None,
        *,
        decoding: Decoding,
        store: IndexStore | None,
        max_open: int,
    ) -> None:
        check_gpu(decoding.gpu)
        super().__init__(DecoderPool(shape, max_open, decoding=decoding))
        self._transform = transform
        self._videos = VideoSet.open(videos, store=store)

    def _read(self, video: int, wanted: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return uint8 [N, H, W, 3], frames `wanted` (ascending, none twice) of a video."""
        index = self._videos.indexes[video]
        jobs = (DecodeJob(stretch.wanted) for stretch in stretches(video, index, wanted))
        return read_whole(self._pool.decoder(index), jobs)[0]

    def _transformed(self, frames: NDArray[np.uint8]) -> Any:
        """Return frames [..., H, W, 3] as a tensor [..., 3, H, W], through the transform."""
        tensor = torch.from_numpy(frames).movedim(-1, -3)
        return tensor if self._transform is None else self._transform(tensor)


class VideoDataset(_VideoDataset[Any]):
    """One clip of each video: `dataset[i]` is a clip of video i.

        clips = VideoDataset(files, clip_len=16, stride=2, transform=None, size=(256, 256))
        for batch in DataLoader(clips, batch_size=4, num_workers=2): ...

    An item is uint8 [T, 3, H, W] in [0, 255], RGB, upright, with colour innermost in memory; or
    what `transform` makes of it. A clip starts at a frame drawn from (seed, epoch, i) among those
    from which it lies inside its video, whatever process asks and in whatever order.
    """

    def __init__(
        self,
        files: Iterable[Source | str | os.PathLike[str]],
        clip_len: int = 16,
        stride: int = 2,
        transform: Transform | None = None,
        *,
        size: tuple[int, int] | None = None,
        fit: Fit = "stretch",
        interpolation: Interpolation = "area",
        start: int | Literal["random"] = "random",
        boundary: Boundary = "error",
        seed: int = 0,
        decoding: Decoding = ON_CPU,
        store: IndexStore | None = None,
        max_open: int = 4,
    ) -> None:
        """Open the index of every video; decodes nothing yet.

        Args:
            files: Paths of the videos.
            clip_len: Frames of a clip, T.
            stride: From one frame of a clip to the next; 1 means consecutive.
            transform: Called with each clip.
            size: (height, width) of the frames; None keeps each video's own, and a batch then
                needs videos of one size, or a transform that makes them equal.
            fit: Where `size` has another aspect ratio: `stretch`, `cover` or `contain`.
            interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
            start: Index of the first frame, the same for every video and epoch, or `random`.
            boundary: What happens where a video ends before its clip: see `clip_indices`.
            seed: Another one gives other random clips.
            decoding: What decodes, and where. Workers of a DataLoader must be spawned for a GPU.
            store: Where indexes are kept; None means the user's cache folder.
            max_open: Files that each process keeps open.

        Raises:
            ConfigError: an argument is out of range, or a video is shorter than a clip and
                `boundary` is `error`.
            OpenError, ScanError: a video cannot be read.
        """
        shape = FrameShape(size=size, fit=fit, interpolation=interpolation)
        super().__init__(files, shape, transform, decoding=decoding, store=store, max_open=max_open)
        self._clip_len = clip_len
        self._stride = stride
        self._start = start
        self._boundary: Boundary = boundary
        self._seed = seed
        # Shared memory, so that workers that live on are told of a new epoch as well.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        shortest = int(self._videos.population.frames_per_video.argmin())
        self.clip_indices(shortest)

    def __len__(self) -> int:
        """How many videos there are."""
        return len(self._videos.indexes)

    def set_epoch(self, epoch: int) -> None:
        """Draw the clips of another epoch from now on, in workers too."""
        self._epoch.fill_(epoch)

    def clip_indices(self, video: int) -> NDArray[np.int64]:
        """Return the frames that make the clip of a video in this epoch, int64 [T]."""
        index = self._videos.indexes[video]
        start = self._start
        if start == "random":
            draws = Draws(seed=self._seed, epoch=int(self._epoch), purpose=Purpose.START)
            starts = max(1, len(index) - clip_span(self._clip_len, self._stride) + 1)
            start = int(draws.integers(video, starts))
        try:
            return clip_indices(len(index), start, self._clip_len, self._stride, self._boundary)
        except ConfigError as error:
            raise ConfigError(f"no clip of {index.source}: {error}") from error

    def __getitem__(self, video: int) -> Any:
        """Return the clip of a video.

        Raises:
            IndexError: there is no such video.
            OpenError, DecodeError: its file has changed, or cannot be decoded there. A DataLoader
                passes it on from a worker as RuntimeError, with its words.
        """
        if not 0 <= video < len(self):
            raise IndexError(f"video {video} was asked for, there are {len(self)}")
        wanted = self.clip_indices(video)
        different, place = np.unique(wanted, return_inverse=True)
        frames = self._read(video, different)
        return self._transformed(frames if len(different) == len(wanted) else frames[place])


class FrameDataset(_VideoDataset[FrameItem]):
    """Every frame of all videos, by its id: `dataset[n]` is frame n, counted through all videos.

        frames = FrameDataset(videos, size=(256, 256))
        sampler = EpochSampler(frames, Permutation())
        for batch in DataLoader(frames, batch_size=128, sampler=sampler, num_workers=2): ...

    A DataLoader asks for a batch at a time, and each GOP is then decoded once for all frames of
    the batch, no further than the last of them. `FrameLoader` does so for many batches.
    """

    def __init__(
        self,
        videos: Iterable[Source | str | os.PathLike[str]],
        size: tuple[int, int] | None = (256, 256),
        transform: Transform | None = None,
        *,
        fit: Fit = "stretch",
        interpolation: Interpolation = "area",
        decoding: Decoding = ON_CPU,
        store: IndexStore | None = None,
        max_open: int = 16,
    ) -> None:
        """Open the index of every video; decodes nothing yet.

        Args:
            videos: Paths of the videos.
            size: (height, width) of the frames; None keeps each video's own.
            fit: Where `size` has another aspect ratio: `stretch`, `cover` or `contain`.
            interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
            transform: Called with each frame, uint8 [3, H, W].
            decoding: What decodes, and where. Workers of a DataLoader must be spawned for a GPU.
            store: Where indexes are kept; None means the user's cache folder.
            max_open: Files that each process keeps open.

        Raises:
            ConfigError: there is no video, or an argument is out of range.
            OpenError, ScanError: a video cannot be read.
        """
        shape = FrameShape(size=size, fit=fit, interpolation=interpolation)
        super().__init__(
            videos, shape, transform, decoding=decoding, store=store, max_open=max_open
        )

    @property
    def population(self) -> Population:
        """Which video each frame id belongs to, and where GOPs begin."""
        return self._videos.population

    def timed_population(self) -> Population:
        """Return the population with durations, to sample uniformly in time; 8 bytes a frame."""
        return self._videos.timed_population()

    @property
    def checksum(self) -> int:
        """A number that other videos, or another order of them, are most unlikely to share."""
        return self._videos.checksum

    def __len__(self) -> int:
        """How many frames all videos have."""
        return self.population.num_frames

    def __getitem__(self, frame: int) -> FrameItem:
        """Return one frame. Raises as `__getitems__` does."""
        return self.__getitems__([frame])[0]

    def __getitems__(self, frames: Sequence[int]) -> list[FrameItem]:
        """Return frames by id, in the order they were asked for; one may be asked for twice.

        Raises:
            IndexError: there is no such frame.
            OpenError, DecodeError: a file has changed, or cannot be decoded there. A DataLoader
                passes it on from a worker as RuntimeError, with its words.
        """
        wanted = np.asarray(frames, np.int64)
        for frame in wanted[(wanted < 0) | (wanted >= len(self))]:
            raise IndexError(f"frame {frame} was asked for, there are {len(self)}")
        different, place = np.unique(wanted, return_inverse=True)
        video, index = self.population.locate(different)
        pixels: list[NDArray[np.uint8]] = []
        for each in np.unique(video).tolist():
            pixels.extend(self._read(each, index[video == each]))
        seconds = self._videos.pts_seconds(video, index)
        is_repeated = len(different) < len(wanted)
        return [
            FrameItem(
                # No two items share memory: a transform may work in place.
                frame=self._transformed(pixels[k].copy() if is_repeated else pixels[k]),
                video=int(video[k]),
                index=int(index[k]),
                pts_seconds=float(seconds[k]),
            )
            for k in place.tolist()
        ]
