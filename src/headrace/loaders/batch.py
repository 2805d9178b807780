"""Batch: samples of one training step, as a dict of tensors."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.loaders.batch_sheet import BatchNames, SheetOptions, sheet_of_batch
from headrace.loaders.contact_sheet import ContactSheet
from headrace.loaders.sampled_set import SampledSet
from headrace.video.frames import Clip


class NamedTensors(dict[str, Any]):
    """N samples as a dict of tensors, also available as attributes: `batch.frames`.

    Lightning, Hugging Face's Trainer and accelerate move it to a device and keep its class; so does
    `pin_memory` of a stock DataLoader. `len` is the number of samples, not of entries.
    """

    _names: BatchNames = BatchNames()
    """Names for `show`, outside the dict: trainers do not move, gather or copy them."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"a {type(self).__name__} has no {name!r}; it has {', '.join(self)}"
            ) from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def __missing__(self, key: object) -> NoReturn:
        if isinstance(key, str):
            raise KeyError(key)
        name = type(self).__name__.lower()
        raise KeyError(
            f"a {name} is a dict with the keys {', '.join(self)}; "
            f"for one sample use {name}.sample(0)"
        )

    def with_names(self, names: BatchNames) -> Self:
        """Set the names for `show`, and return this batch."""
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
        """Return the shapes, not the values."""
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
    """N samples in the planned order; a sample is a frame, or a clip of T frames.

    The other columns of a `Manifest` are entries too: `batch.label`, `batch["label"]`.
    """

    frames: torch.Tensor
    """uint8 [N, 3, H, W] in [0, 255], or [N, T, 3, H, W] for clips, RGB, upright, on the loader's
    device; uint16 in [0, 65535] with `dtype="uint16"`. With `transform` or `batch_transform`, their
    result. Channels are innermost in memory (`torch.channels_last`), as decoders write them and
    convolutions prefer. Owned by the caller."""
    video: torch.Tensor
    """int64 [N]: position of each sample's video in the given list."""
    index: torch.Tensor
    """int64 [N], or [N, T]: index of each frame in presentation order."""
    pts_seconds: torch.Tensor
    """float64 [N], or [N, T]: presentation time of each frame, in seconds."""
    original_size: torch.Tensor
    """int64 [N, 2]: (height, width) of the video's upright frames, before they were resized."""
    is_concealed: torch.Tensor
    """bool [N], or [N, T]: whether the frame is damaged and concealed by FFmpeg; false without
    `on_error="conceal"`."""
    is_repeated: torch.Tensor
    """bool [N]: whether the sample was delivered before in this epoch. The first samples of an
    epoch are repeated at its end, so that all ranks have equally many. Leave them out of sums over
    all ranks, so that every sample counts once."""
    is_pad: torch.Tensor
    """bool [N], or [N, T]: whether the frame replaces one beyond the end of the video or segment:
    see `boundary` of the clip samplers."""
    row: torch.Tensor
    """int64 [N]: position of each sample's row in the manifest; for a list of videos, the same as
    `video`."""

    @classmethod
    def of(
        cls,
        sampled: SampledSet,
        frames: NDArray[np.int64],
        pixels: torch.Tensor,
        *,
        is_concealed: NDArray[np.bool_],
        is_repeated: NDArray[np.bool_],
        is_pad: NDArray[np.bool_],
        row: NDArray[np.int64] | None,
    ) -> Self:
        """Return the batch of `frames`, int64 [N] or [N, T] frame ids, with their `pixels`.

        `row` is None for a list of videos.
        """
        videos = sampled.videos
        video, index = videos.population.locate(frames)
        sample_video = video if video.ndim == 1 else video[:, 0]
        number, sizes = videos.number[sample_video], videos.sizes[sample_video]
        return cls(
            frames=pixels,
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
                videos=tuple(str(videos.indexes[k].source) for k in sample_video.tolist()),
                classes=sampled.classes,
            )
        )

    @classmethod
    def of_clip(cls, clip: Clip) -> Self:
        """Return a reader's clip as a batch of one, for `show` or a model.

            headrace.Batch.of_clip(reader.get_frames_played_in_range(0.5, 1.5, fps=6)).show()

        Entries: `frames`, uint8 (or uint16) [1, T, 3, H, W], which share the clip's memory;
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
        """Return the frames as a grid that a notebook displays; a clip is a row of frames in time.

            batch.show()
            batch.show(samples=[3, 7], mean=MEAN, std=STD).save("batch.png")

        Captions show video, index, time and label. Padded, repeated and concealed frames have a
        border and a note. A sheet has at most 1280 x 4096 pixels; its title counts the samples
        shown. Large frames are shrunk to at most 320 pixels a side, small ones enlarged by an
        integer factor.

        8-bit and 16-bit frames are shown as they are, and so are floats in [0, 1] or [0, 255].
        `mean` and `std` undo a normalization; without them, the minimum of all shown values is
        black and the maximum white.

        Args:
            samples: Number of samples from the first on, or their positions; None: 32 frames, or
                8 clips.
            frames: Max frames shown per clip, evenly from its first to its last; at most 16.
            mean: Mean of each channel that the normalization subtracted, for frames in [0, 1].
            std: Standard deviation of each channel that it divided by.

        Raises:
            ConfigError: a position is out of range, or the transformed `frames` are not images
                with 1 or 3 channels.
        """
        options = SheetOptions(samples=samples, frames=frames, mean=mean, std=std)
        return sheet_of_batch(self, self._names, options)
