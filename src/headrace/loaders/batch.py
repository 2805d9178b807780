"""Batch: what a loader delivers to the training loop, as tensors by name."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.loaders.contact_sheet.batch_sheet import sheet_of_batch
from headrace.loaders.contact_sheet.contact_sheet import ContactSheet
from headrace.loaders.contact_sheet.sheet_options import BatchNames, SheetOptions
from headrace.loaders.sampled_set import SampledSet
from headrace.video.frames import Clip


class NamedTensors(dict[str, Any]):
    """N samples as a dict of tensors, which are attributes too: `batch["frames"]`, `batch.frames`.

    Lightning, Hugging Face's Trainer and accelerate, and the pinning of a stock DataLoader, take
    it as it is, move it and return the same class. `len` is the number of samples, not of names.
    """

    _names: BatchNames = BatchNames()
    """Names for a reader, beside the entries: trainers do not move, gather or copy them."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"a {type(self).__name__} has {', '.join(self)}, and no {name!r}"
            ) from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def __missing__(self, key: object) -> NoReturn:
        if isinstance(key, str):
            raise KeyError(key)
        what = type(self).__name__.lower()
        raise KeyError(
            f"a {what} is a dict by name: {', '.join(self)}; {what}.sample(0) gives one sample"
        )

    def with_names(self, names: BatchNames) -> Self:
        """Return this batch, with names for `show`."""
        self.__dict__["_names"] = names
        return self

    def __len__(self) -> int:
        for value in self.values():
            if isinstance(value, list) or (isinstance(value, torch.Tensor) and value.ndim > 0):
                return len(value)
        return 0

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        """Shapes in place of values."""
        shapes = ", ".join(f"{name} {_shape(value)}" for name, value in self.items())
        return f"{type(self).__name__}({len(self)} samples: {shapes})"

    def sample(self, place: int) -> dict[str, Any]:
        """Return the entries of one sample, by name; tensors share memory with the batch."""
        return {name: value[place] for name, value in self.items()}

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Return the batch on `device`; tensors already there are not copied.

        Args:
            device: A device of torch: "cuda", "cuda:1", "cpu".
            non_blocking: Whether to return before a copy from pinned memory has ended.
        """
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Return a copy in page-locked memory, from which CUDA copies in the background.

        Raises:
            RuntimeError: from PyTorch, if there is no GPU.
        """
        return self._map(torch.Tensor.pin_memory)

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        batch = type(self)({name: _mapped(value, change) for name, value in self.items()})
        batch.__dict__.update(self.__dict__)
        return batch


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


def _shape(value: object) -> str:
    if isinstance(value, torch.Tensor):
        device = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{str(value.dtype).removeprefix('torch.')} {[*value.shape]}{device}"
    if isinstance(value, list) and value:
        return f"{len(value)} x {_shape(value[0])}"
    return type(value).__name__


class Batch(NamedTensors):
    """N samples, in the planned order; a sample is a frame, or a clip of T frames.

    The other columns of a `Manifest` are entries, too: `batch.label`, `batch["label"]`.
    """

    frames: torch.Tensor
    """uint8 [N, 3, H, W], or [N, T, 3, H, W] of clips; [0, 255], RGB, upright; or uint16 in
    [0, 65535] with `dtype="uint16"`; on the loader's device. With `transform` or
    `batch_transform`, their result. Channels are innermost in memory (`torch.channels_last`), as
    decoders write them and convolutions prefer. Owned by the caller."""
    video: torch.Tensor
    """int64 [N]: position of each sample's video in the given list."""
    index: torch.Tensor
    """int64 [N], or [N, T]: index of each frame in presentation order."""
    pts_seconds: torch.Tensor
    """float64 [N], or [N, T]: presentation time of each frame, in seconds."""
    original_size: torch.Tensor
    """int64 [N, 2]: (height, width) of the video's upright frames, before they were resized."""
    is_concealed: torch.Tensor
    """bool [N], or [N, T]: the frame is damaged and concealed by FFmpeg; false without
    `on_error="conceal"`."""
    is_repeated: torch.Tensor
    """bool [N]: the sample was delivered before in this epoch: the first samples are repeated at
    its end, so that all ranks have equally many. For sums over all ranks, leave these out, so that
    every sample counts once."""
    is_pad: torch.Tensor
    """bool [N], or [N, T]: the frame replaces one beyond the end of the video or segment: see
    `boundary` of the samplers of clips."""
    row: torch.Tensor
    """int64 [N]: position of each sample's row in the manifest; of a list of videos, the same as
    `video`."""

    @classmethod
    def of(
        cls,
        sampled: SampledSet,
        frames: NDArray[np.int64],
        pictures: torch.Tensor,
        *,
        is_concealed: NDArray[np.bool_],
        is_repeated: NDArray[np.bool_],
        is_pad: NDArray[np.bool_],
        row: NDArray[np.int64] | None,
    ) -> Self:
        """Return the batch of `frames`, ids int64 [N] or [N, T] among the videos, as `pictures`.

        `row` is None for a list of videos.
        """
        videos = sampled.videos
        video, index = videos.population.locate(frames)
        opened = video if video.ndim == 1 else video[:, 0]
        number, sizes = videos.number[opened], videos.sizes[opened]
        return cls(
            frames=pictures,
            video=torch.from_numpy(number),
            index=torch.from_numpy(index),
            pts_seconds=torch.from_numpy(videos.pts_seconds(video, index)),
            original_size=torch.from_numpy(sizes),
            is_concealed=torch.from_numpy(is_concealed),
            is_repeated=torch.from_numpy(is_repeated),
            is_pad=torch.from_numpy(is_pad),
            row=torch.from_numpy(number.copy() if row is None else row),
            **({} if row is None else sampled.columns(row)),
        ).with_names(
            BatchNames(
                videos=tuple(str(videos.indexes[each].source) for each in opened.tolist()),
                classes=sampled.classes,
            )
        )

    @classmethod
    def of_clip(cls, clip: Clip) -> Self:
        """Return a clip of a reader as a batch of one clip, to show or for a model.

            headrace.Batch.of_clip(reader.get_frames_played_in_range(0.5, 1.5, fps=6)).show()

        Its entries are `frames`, uint8 (or uint16) [1, T, 3, H, W] in the memory of the clip,
        `index`, `pts_seconds` and `is_concealed`.
        """
        return cls(
            frames=torch.as_tensor(clip.frames).movedim(-1, -3)[None],
            index=torch.from_numpy(clip.index)[None],
            pts_seconds=torch.from_numpy(clip.pts_seconds)[None],
            is_concealed=torch.from_numpy(clip.is_concealed)[None],
        )

    def show(
        self,
        samples: int | Sequence[int] | None = None,
        *,
        frames: int = 8,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> ContactSheet:
        """Return the frames in a grid, clips as rows of frames in time; a notebook shows it.

            batch.show()
            batch.show(samples=[3, 7], mean=MEAN, std=STD).save("batch.png")

        Captions name the video, index, time and label; padded, repeated and concealed frames have
        a border and a caption. A sheet has at most 1280 x 4096 pixels, and counts what is cut.
        Large frames are shrunk by a whole number, small ones enlarged.

        8-bit and 16-bit frames are shown as they are, and so are floats in [0, 1] or [0, 255].
        Normalised floats are restored by the `mean` and `std` of the normalisation; without them,
        the minimum of all shown values is black and the maximum white.

        Args:
            samples: Number of samples from the first on, or their positions; None: 32 frames, or
                8 clips.
            frames: Frames of each clip, at most 16, evenly from its first to its last.
            mean: Mean of each channel, for frames in [0, 1].
            std: Standard deviation of each channel, likewise.

        Raises:
            ConfigError: a position is out of range, or transformed `frames` are no images of 1 or
                3 channels.
        """
        options = SheetOptions(samples=samples, frames=frames, mean=mean, std=std)
        return sheet_of_batch(self, self._names, options)
