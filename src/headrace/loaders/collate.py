"""NamedTensors: a batch as a dict; Collate: pin, move and transform the frames of a batch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self, TypeAlias, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import BackendError, ConfigError, first_line
from headrace.loaders.batch_sheet import BatchNames
from headrace.models.device import CopyStream
from headrace.models.outputs import describe_value
from headrace.runtime.cuda_diagnostics import explain_missing_gpu
from headrace.runtime.fork_safety import check_cuda_after_fork
from headrace.sampling.counter_rng import seeded


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


BatchTransform = Callable[[torch.Tensor], torch.Tensor]
"""Function of the uint8 frames of a whole batch, on their device."""


@dataclass(frozen=True)
class WithSample:
    """A transform that also receives the sample's other entries: `WithSample(crop_box)`.

        def crop_box(frames, sample):
            return crop(frames, boxes[sample["video"], sample["index"]])

    `sample` is a dict of all entries except the frames: video, index, pts_seconds, and labels if
    there are any; for cameras slot, clip, first_frame, image_matrix and more.
    """

    function: Callable[[torch.Tensor, Mapping[str, Any]], Any]


Transform = Callable[[torch.Tensor], Any] | WithSample
"""Function of the uint8 frames of one sample: [3, H, W] of a frame, or [T, 3, H, W] of a clip, so
that one random draw applies to the whole clip."""


def check_transforms(transform: object = None, batch_transform: object = None) -> None:
    """Check that both are functions or None.

    Raises:
        ConfigError: one is not; names it.
    """
    if not (transform is None or callable(transform) or isinstance(transform, WithSample)):
        raise ConfigError(
            "transform must be a function of frames or WithSample(function of frames and sample), "
            f"got {type(transform).__name__}"
        )
    if not (batch_transform is None or callable(batch_transform)):
        raise ConfigError(
            "batch_transform must be a function of the frames of a batch, got "
            f"{type(batch_transform).__name__}"
        )


def apply_transform(transform: Transform, frames: torch.Tensor, sample: Mapping[str, Any]) -> Any:
    """Transform the frames of one sample, with the random state of the process."""
    if isinstance(transform, WithSample):
        return transform.function(frames, sample)
    return transform(frames)


def transform_samples(
    transform: Transform,
    frames: Sequence[torch.Tensor] | torch.Tensor,
    samples: Iterable[Mapping[str, Any]],
    seeds: Iterable[int],
) -> list[Any]:
    """Transform the frames of each sample, with its own seed, one after another in this thread."""
    if not len(frames):
        return []
    with seeded(frames[0].device) as seed:
        results = []
        for pixels, sample, number in zip(frames, samples, seeds, strict=True):
            seed(number)
            results.append(apply_transform(transform, pixels, sample))
        return results


def stack_samples(samples: Sequence[Any]) -> torch.Tensor:
    """Stack transformed samples to [N, ...], channels last in memory if the first sample is.

    Raises:
        ConfigError: the samples are not tensors of one shape and dtype.
    """
    for sample in samples:
        if not isinstance(sample, torch.Tensor):
            raise ConfigError(f"transform must return a tensor, got {describe_value(sample)}")
    kinds = dict.fromkeys(f"{sample.dtype} {[*sample.shape]}" for sample in samples)
    if len(kinds) > 1:
        raise ConfigError(
            "transform must return the same shape and dtype for all samples of a batch, got "
            f"{' and '.join([*kinds][:2])}; end it with a resize or crop to one size"
        )
    first = samples[0]
    if first.ndim >= 3 and first.stride(-3) == 1:
        return torch.stack([sample.movedim(-3, -1) for sample in samples]).movedim(-1, -3)
    return torch.stack([*samples])


def check_device(device: torch.device | str | None, pin_memory: bool) -> None:
    """Check that batches can be copied to `device`, and to page-locked memory.

    Does not initialize CUDA, so that the process may still be forked.

    Raises:
        ConfigError: torch does not know the device.
        BackendError: the device is missing, or `pin_memory` is set and there is no GPU.
    """
    if device is not None:
        _check_device(device)
    if pin_memory and not torch.cuda.device_count():
        try:
            torch.empty(1).pin_memory()
        except RuntimeError as error:
            raise BackendError(
                f"pin_memory=True needs a GPU, and torch finds none; leave it out "
                f"({first_line(error)[:200]})"
            ) from error


def _check_device(device: torch.device | str) -> None:
    try:
        requested = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device must be a device of torch, such as 'cpu', 'cuda' or 'cuda:1', got {device!r}"
        ) from error
    if requested.type == "cuda":
        count = torch.cuda.device_count()
        if (requested.index or 0) >= count:
            present = describe_devices("'cuda:0'", f"'cuda:{count - 1}'", count)
            raise BackendError(
                f"device {str(requested)!r} is missing: torch {torch.__version__} finds {present}; "
                "or leave device out for batches on the CPU"
            )
        return
    try:
        torch.empty(0, device=requested)
    except (RuntimeError, AssertionError, ImportError) as error:
        raise BackendError(
            f"torch {torch.__version__} cannot use device {str(requested)!r} "
            f"({first_line(error)[:200]}); leave device out for batches on the CPU"
        ) from error


def describe_devices(first: str, last: str, count: int) -> str:
    """Return the present devices for a message: `first` to `last`, or why there are none."""
    return f"{first} to {last}" if count else f"no CUDA device: {explain_missing_gpu()}"


class CudaPrefetcher:
    """Copies the frames of each batch to a GPU while the GPU works on the previous batch.

    The GPU holds two batches: the one in use, and the one being copied. A copy waits for the end of
    the work on the batch before the last. Without this wait, a loop that queues work faster than
    the GPU does it would copy batch after batch, as memory is freed only when the work on it is
    done. So the process is at most one step ahead of the GPU.
    """

    def __init__(self, copy_stream: CopyStream) -> None:
        self._copy_stream = copy_stream
        self._previous: torch.cuda.Event | None = None
        """End of the work on the batch before the last."""

    def __call__(self, images: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the frames of a batch on the GPU, ready for the caller's current stream."""
        queued = self._copy_stream.mark()
        if self._previous is not None:
            self._previous.synchronize()
        self._previous = queued
        moved, copied = self._copy_stream.begin(images)
        self._copy_stream.hand_over(moved, copied)
        return moved


_AnyPixels: TypeAlias = NDArray[np.uint8] | torch.Tensor
_Batch = TypeVar("_Batch", bound=NamedTensors)


@dataclass(frozen=True, kw_only=True)
class Collate:
    """Steps from decoded pixels to the frames of a batch: pin, move, then transform."""

    transform: Transform | None = None
    """Applied to each sample."""
    batch_transform: BatchTransform | None = None
    """Applied to the frames of all samples together, after `transform`."""
    device: torch.device | str | None = None
    """Device of batches; None: the CPU."""
    pin_memory: bool = False
    """Whether frames are copied to page-locked memory, and from there to a GPU during its work."""
    copying: CopyStream | None = None
    """Copies pinned frames to a GPU; None: a new `CopyStream`."""

    def __post_init__(self) -> None:
        check_device(self.device, self.pin_memory)
        check_transforms(self.transform, self.batch_transform)

    @overload
    def to_frames(self, pixels: _AnyPixels) -> torch.Tensor: ...
    @overload
    def to_frames(self, pixels: list[list[_AnyPixels]]) -> list[list[torch.Tensor]]: ...
    def to_frames(
        self, pixels: _AnyPixels | list[list[_AnyPixels]]
    ) -> torch.Tensor | list[list[torch.Tensor]]:
        """Return pixels [..., H, W, 3], or nested lists of them, as frames [..., 3, H, W].

        Frames that are neither pinned nor moved take over the memory of `pixels`. Frames on a GPU
        are ready for the caller's current stream.

        Raises:
            BackendError: CUDA is needed in a process forked from one that uses it.
        """
        if self.pin_memory or self._is_cuda:
            target = self.device if self._is_cuda else "page-locked memory"
            check_cuda_after_fork(f"batches were to go to {target}")
        if isinstance(pixels, list):
            moved = iter(self._move([_channels_first(image) for row in pixels for image in row]))
            return [[next(moved) for _ in row] for row in pixels]
        return self._move([_channels_first(pixels)])[0]

    def _move(self, images: list[torch.Tensor]) -> list[torch.Tensor]:
        """Pin the images of a batch and copy them to the device, as the options say."""
        if self._prefetcher is not None:
            return self._prefetcher(images)
        if self.pin_memory:
            images = [image.pin_memory() for image in images]
        if self.device is not None:
            images = [image.to(self.device, non_blocking=self.pin_memory) for image in images]
        return images

    @cached_property
    def _prefetcher(self) -> CudaPrefetcher | None:
        """Copies pinned batches to a GPU during its work; None: no pinned copies to a GPU."""
        if self.copying is not None:
            return CudaPrefetcher(self.copying)
        if self.device is None or not (self._is_cuda and self.pin_memory):
            return None
        return CudaPrefetcher(CopyStream(self.device))

    @property
    def _is_cuda(self) -> bool:
        return self.device is not None and torch.device(self.device).type == "cuda"

    def apply_transforms(self, batch: _Batch, seeds: Iterable[int]) -> _Batch:
        """Replace the `frames` of a batch by transformed ones, and return the batch.

        Args:
            batch: Its frames are one tensor, or a list of tensors per sample; the images of a list
                are transformed one by one, with the same seed, without empty images.
            seeds: Seed of each sample; read only if there is a `transform`.

        Raises:
            ConfigError: transformed samples differ in shape or dtype, or `batch_transform` is given
                for frames of different sizes.
        """
        frames = batch["frames"]
        if self.transform is not None:
            others = type(batch)({name: batch[name] for name in batch if name != "frames"})
            samples = [others.sample(position) for position in range(len(batch))]
            if isinstance(frames, list):
                rows = zip(frames, samples, seeds, strict=True)
                frames = [self._transform_images(*row) for row in rows]
            else:
                frames = stack_samples(transform_samples(self.transform, frames, samples, seeds))
        if self.batch_transform is not None:
            if isinstance(frames, list):
                raise ConfigError(
                    "batch_transform needs one tensor of all frames, but frames have different "
                    "sizes; use transform, or ragged='pad'"
                )
            frames = self.batch_transform(frames)
        batch["frames"] = frames
        return batch

    def _transform_images(
        self, images: list[torch.Tensor], sample: dict[str, object], seed: int
    ) -> list[torch.Tensor]:
        assert self.transform is not None
        present = [image for image in images if image.numel()]
        count = len(present)
        results = iter(transform_samples(self.transform, present, [sample] * count, [seed] * count))
        return [next(results) if image.numel() else image for image in images]


def _channels_first(pixels: _AnyPixels) -> torch.Tensor:
    """Return a view of pixels [..., H, W, 3] as [..., 3, H, W]."""
    return torch.as_tensor(pixels).movedim(-1, -3)
