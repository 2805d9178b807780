"""Options of the loaders, and the decorator that accepts them as keyword arguments."""

import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import ClassVar, Concatenate, Literal, ParamSpec, TypeVar, cast, get_args

import torch

from headrace.argument_names import check_names
from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.gpu.gpu_decoding import DeviceScheduler, device_of
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import capabilities_of
from headrace.decode.protocol import OnError, check_on_error
from headrace.decode.spilled_decoder import open_spill
from headrace.errors import BackendError, ConfigError
from headrace.loaders.collate import BatchTransform, Collate, Transform, describe_devices
from headrace.loaders.hold_choice import LAYOUTS, Hold
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.processor_affinity import available_cores
from headrace.units import check_integers, check_switches, one_of
from headrace.video.frame_format import Fit, FrameFormat, Interpolation, Layout, PixelType

OnEarlyExit = Literal["continue", "restart"]
"""Rule for the iteration after one that ended early: continue that epoch, so that every sample is
delivered, or restart it."""

OnBad = Literal["raise", "skip", "conceal", "mask"]
"""Policy for bad media: as `OnError`, or `mask`: frames that cannot be decoded are black and
masked, and the other frames of their sample are delivered."""


def check_decoding(decoding: DecoderConfig) -> None:
    """Check that the decoder's backend and GPU are available, without initializing CUDA.

    Raises:
        BackendError: one is missing.
    """
    check_gpu(decoding.gpu)
    capabilities_of(decoding)


def check_stay(
    decoding: DecoderConfig, device: torch.device | str | None, pin_memory: bool
) -> None:
    """Check that frames that stay on a device would not be copied.

    Raises:
        ConfigError: batches would be copied to page-locked memory, or to another device.
    """
    if not decoding.keeps_on_device:
        return
    decoding_device = device_of(decoding)
    if pin_memory and decoding.stays_on_gpu:
        raise ConfigError(
            "pin_memory=True is for batches copied from the CPU to a GPU, but frames stay on "
            f"{decoding_device}; leave pin_memory out"
        )
    if device is not None and _numbered_name(torch.device(device)) != decoding_device:
        raise ConfigError(
            f"device must be {decoding_device!r}, where frames stay, got {str(device)!r}; leave "
            "device out, or leave keeps_on_device out to copy frames to the CPU"
        )


def check_gpu(gpu: int | None) -> None:
    """Check that a GPU is present, without initializing CUDA; None: no GPU is needed.

    Raises:
        ConfigError: `gpu` is not an index of a GPU.
        BackendError: the GPU is missing.
    """
    if gpu is None:
        return
    check_integers(0, gpu=gpu)
    count = torch.cuda.device_count()
    if gpu >= count:
        present = describe_devices("GPU 0", f"GPU {count - 1}", count)
        raise BackendError(
            f"decoding on GPU {gpu} was asked for, torch {torch.__version__} finds {present}; or "
            "leave gpu out to decode on the CPU"
        )


def _numbered_name(device: torch.device) -> str:
    """Return a device's name as in `DecoderConfig`; a GPU without an index is number 0."""
    return f"cuda:{device.index or 0}" if device.type == "cuda" else device.type


@dataclass(frozen=True, kw_only=True)
class LoaderOptions:
    """Options of every loader.

    A loader checks them when it opens, not here, so that a rank that fails can report it to the
    ranks that wait for it (`epochs.agreement`).

    Args:
        decoding: Decoder and device; None: PyAV on the CPU. All devices deliver the same frames,
            bit for bit as PyAV, unless frames stay on the device (`keeps_on_device=True`). Batches
            are then on that device, ready for the current CUDA stream of the iterating thread.
            `DecoderConfig(device="auto")` schedules each job on GPU 0 or the CPU, whichever
            completes it sooner; `statistics.decoded_by` has the counts of both.
        gpu: Index of the NVIDIA GPU that decodes; short for `DecoderConfig.on_gpu(gpu)`. Frames are
            copied to the CPU; `device` moves batches.
        num_threads: Number of decoding threads, each with its own decoder; None: one per usable
            core. With `auto`, threads that wait for the GPU come on top.
        transform: Function of the frames of each sample, on their device, called in the iterating
            thread; `WithSample` also receives the other entries of the sample. Its random numbers
            from PyTorch, NumPy or `random` depend on seed, epoch and position in the epoch, so they
            are the same for any number of threads and ranks, and after resuming.
        batch_transform: Function of the frames of each batch, called after `transform`: one random
            draw for all samples.
        device: Device of batches; None: the CPU, or the device on which frames stay. Frames that
            stay on a device are not moved to another one.
        pin_memory: Whether batches are copied to page-locked memory. With a GPU as `device`, a
            separate CUDA stream copies them to the GPU while it works on the previous batch. The
            current stream of the iterating thread waits for the copy, the process does not. The GPU
            holds one more batch, and the process is at most one step ahead of it.
        rank: Rank of this process among `num_replicas`; None: its rank in torch.distributed if that
            is initialized, otherwise 0.
        num_replicas: Processes that share an epoch; None as for `rank`.
        on_early_exit: What the next iteration does after one that ended early (`break`, a limit of
            batches): `continue` the epoch, or `restart` it. None: `continue` if the order differs
            between epochs, as in training, otherwise `restart`, as in evaluation.
        stall_seconds: Max seconds of a thread on one job before it counts as hung; None: no limit.
        index_store: Store of the indexes; None: the user's cache folder.
        spill: Folder on a local disk for packed decoded frames; None: no folder. Frames in it are
            read instead of decoded, for the same video, size and conversion. Workers, ranks, runs,
            loaders and readers may share it. A loader with `hold` stores whole GOPs, a
            `CameraLoader` the frames that it delivers. Not with `augment`. `headrace plan --spill`
            estimates the bytes of a dataset.
        spill_budget: Max bytes in that folder, as a number or like "50GB"; the oldest frames are
            removed first. None: the folder's last budget, or 50 GB.
        clock: Clock for waiting times.
    """

    memory_budget: int | str = "1GiB"
    lookahead: int | None = None
    decoding: DecoderConfig | None = None
    gpu: int | None = None
    num_threads: int | None = None
    transform: Transform | None = None
    batch_transform: BatchTransform | None = None
    device: torch.device | str | None = None
    pin_memory: bool = False
    rank: int | None = None
    num_replicas: int | None = None
    on_early_exit: OnEarlyExit | None = None
    stall_seconds: float | None = 120.0
    index_store: IndexStore | None = None
    spill: str | os.PathLike[str] | None = None
    spill_budget: int | str | None = None
    clock: Clock = SYSTEM_CLOCK

    # Defaults of options that only some loaders have, as fields.
    on_error = "raise"
    drop_last = False
    prefetch_next_epoch = False

    @property
    def skips_bad(self) -> bool:
        """Whether bad media is skipped, concealed or masked, so that ranks may differ."""
        return self.on_error != "raise"

    def decoder(self) -> DecoderConfig:
        """Return the decoder and its device.

        Raises:
            BackendError: the backend or the GPU is missing.
            ConfigError: `gpu` is not an index of a GPU, or both `decoding` and `gpu` are given.
        """
        if self.gpu is not None:
            check_integers(0, gpu=self.gpu)
        decoding = DecoderConfig.resolve(self.decoding, self.gpu)
        check_decoding(decoding)
        return decoding

    def scheduler(self) -> DeviceScheduler | None:
        """Return the scheduler that assigns jobs to the GPU or the CPU; None: not `auto`."""
        if not self.decoder().is_auto:
            return None
        return DeviceScheduler(cores=self.thread_count(), clock=self.clock)

    def open_spill(self, *, is_augmented: bool) -> SpillStore | None:
        """Open the store of `spill`. Raises the errors of `decode.spilled_decoder.open_spill`."""
        return open_spill(
            self.spill, self.decoder(), budget=self.spill_budget, is_augmented=is_augmented
        )

    def check(self) -> None:
        """Check all values: ConfigError; BackendError if the decoder is missing."""
        check_integers(1, num_threads=self.num_threads)
        if self.on_early_exit not in (*get_args(OnEarlyExit), None):
            raise ConfigError(
                f"on_early_exit must be one of {', '.join(get_args(OnEarlyExit))}, or None, got "
                f"{self.on_early_exit!r}"
            )
        check_switches(pin_memory=self.pin_memory)
        self.decoder()

    def thread_count(self) -> int:
        """Return the number of decoding threads."""
        return len(available_cores()) if self.num_threads is None else self.num_threads

    def collate(self) -> Collate:
        """Return the `Collate` of these options.

        Raises the errors of `Collate`, and ConfigError if frames that stay on a device would be
        copied.
        """
        collate = Collate(
            transform=self.transform,
            batch_transform=self.batch_transform,
            device=self.device,
            pin_memory=self.pin_memory,
        )
        decoding = self.decoder()
        check_stay(decoding, self.device, self.pin_memory)
        # Batches of frames that stay are on their device already.
        return replace(collate, device=None) if decoding.keeps_on_device else collate


@dataclass(frozen=True, kw_only=True)
class PlannedOptions(LoaderOptions):
    """Options of a loader with planned decoding.

    Args:
        batch_size: Samples in a batch of this rank; the last batch of an epoch may have fewer.
        size: (height, width) of the frames; None: the size of the videos, which must be equal.
        fit: Rule for a `size` with another aspect ratio: `stretch`, `cover` (crop the excess) or
            `contain` (the full frame with black borders).
        interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`, which cost
            about twice as much.
        dtype: `uint8`; or `uint16`, with twice the bytes, for video of more than 8 bits.
        memory_budget: Bytes, as a number or like "256MiB", for waiting frames, two batches and
            codecs (about 11 MB per thread at 720p). Two things come on top: open files, up to a
            sixteenth of the budget, and codecs beyond a quarter of the budget. If frames stay on a
            GPU, the budget is GPU memory, and the GPU's codecs come on top.
        hold: Format of waiting frames. `rgb`: pixels. `packed`: a lossless codec, with a fifth
            to half of the bytes, at about 1 ms of one core per 256x256 frame; more frames fit, so
            fewer are decoded twice. `auto`: the faster of the two, timed with the first frames;
            `statistics.packed` has the times. These three deliver the same bits. `yuv420`: half the
            bytes of `rgb`, with color at half the resolution; `packed_yuv420`: the same, packed.
        lookahead: Number of frame requests planned together; each frame of a clip is a request.
            None: as many as the budget is expected to hold, growing from one batch, so that the
            first batch comes as early as without lookahead. For a single pass over a dataset, an
            explicit number decodes fewer frames. 1 is naive random access.
        seed: Seed of the batches; None: the sampler's, which is 0 by default. If the sampler has a
            seed above 0, both must be equal.
        drop_last: Whether the last batch of an epoch is dropped if it is smaller; at least one
            batch must remain.
        on_error: Policy for bad media. `skip` skips a video that cannot be opened, and replaces a
            sample that cannot be decoded by another draw, which does not depend on timing; both are
            counted, and listed in `quarantined`. `conceal` delivers a damaged frame as FFmpeg
            conceals it, marked in `Batch.is_concealed`. With either, ranks of torch.distributed
            compare their skipped videos, so every rank must open its loader.
        quarantine: File with a list of bad frames, which is read and extended. A later run skips
            them from its start, and has the same batches.
        prefetch_next_epoch: Whether the start of the next epoch is decoded while one ends. False
            ends all threads with each epoch, for evaluation.
    """

    _ON_ERROR: ClassVar[tuple[str, ...]] = get_args(OnError)
    """Allowed values of `on_error`."""

    batch_size: int
    size: tuple[int, int] | None = (256, 256)
    fit: Fit = "stretch"
    interpolation: Interpolation = "area"
    dtype: PixelType = "uint8"
    hold: Hold = "auto"
    seed: int | None = None
    drop_last: bool = False
    on_error: OnBad = "raise"
    quarantine: str | os.PathLike[str] | None = None
    prefetch_next_epoch: bool = True

    def check(self) -> None:
        """Check all values: ConfigError; BackendError if the decoder is missing."""
        super().check()
        one_of(Hold, hold=self.hold)
        check_on_error(self.on_error, self._ON_ERROR)
        check_switches(drop_last=self.drop_last, prefetch_next_epoch=self.prefetch_next_epoch)
        self.shape(self.size, "rgb")  # raises for invalid sizes
        if self.hold in LAYOUTS and self.dtype != "uint8":
            raise ConfigError(
                f"hold={self.hold!r} has 8 bits, fewer than dtype={self.dtype!r}; leave out one of "
                "the two"
            )
        if self.decoder().keeps_on_device and (self.hold.startswith("packed") or self.spill):
            raise ConfigError(
                "frames that stay on a device cannot be packed or stored on a disk; leave out "
                f"hold={self.hold!r} and spill, or keeps_on_device"
            )

    def shape(self, size: tuple[int, int] | None, layout: Layout) -> FrameFormat:
        """Return the format of frames with a size and layout. Raises as `FrameFormat`."""
        return FrameFormat(
            size=size,
            fit=self.fit,
            interpolation=self.interpolation,
            layout=layout,
            dtype=self.dtype,
        )

    @property
    def held_layout(self) -> Layout:
        """Layout of waiting frames, before packing."""
        return LAYOUTS.get(self.hold, "rgb")

    @property
    def masks_bad(self) -> bool:
        """Whether a sample with bad frames is delivered with these masked, instead of replaced."""
        return self.on_error == "mask"


P = ParamSpec("P")
Owner = TypeVar("Owner")
Options = TypeVar("Options")

_ARGUMENT = re.compile(r"^    (\w+): .*(?:\n {5,}.*)*", re.MULTILINE)
"""Documentation of one argument in a docstring."""


def takes(
    options: Callable[P, Options],
) -> Callable[[Callable[[Owner, Options], None]], Callable[Concatenate[Owner, P], None]]:
    """Decorate an `__init__` with one dataclass argument to accept the fields as arguments.

        @takes(FrameLoaderOptions)
        def __init__(self, options: FrameLoaderOptions) -> None: ...

    `FrameLoader(videos, batch_size=8)` passes `FrameLoaderOptions(videos, batch_size=8)`. Each
    argument is written once, with its type, default and documentation, which type checkers, `help`
    and `inspect.signature` show. (An unpacked TypedDict has no defaults. If the loader itself were
    the dataclass, its arguments could be assigned later, without any effect.)
    """

    def decorate(init: Callable[[Owner, Options], None]) -> Callable[Concatenate[Owner, P], None]:
        # Fields of the dataclass itself first, then inherited ones.
        owners = cast(type, options).__mro__
        declared = [name for owner in owners for name in inspect.get_annotations(owner)]
        parameters = sorted(
            inspect.signature(options).parameters.values(),
            key=lambda parameter: (parameter.kind, declared.index(parameter.name)),
        )
        known = [parameter.name for parameter in parameters]

        @wraps(init)
        def with_arguments(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> None:
            check_names(type(self).__name__, kwargs, known)
            init(self, options(*args, **kwargs))

        # So that a TypeError names the loader, not its options.
        vars(options)["__init__"].__qualname__ = init.__qualname__
        self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        signature = inspect.Signature([self_parameter, *parameters])
        with_arguments.__signature__ = signature  # type: ignore[attr-defined]
        texts = _argument_texts(cast(type, options))
        lines = "\n".join(texts[name] for name in known)
        with_arguments.__doc__ = f"{inspect.getdoc(init)}\n\nArgs:\n{lines}\n"
        return with_arguments

    return decorate


def _argument_texts(options: type) -> dict[str, str]:
    """Return the indented documentation of each argument; a subclass overrides its parents."""
    texts: dict[str, str] = {}
    for owner in reversed(options.__mro__):
        _, _, arguments = inspect.cleandoc(owner.__doc__ or "").partition("\nArgs:\n")
        texts |= {match[1]: match[0] for match in _ARGUMENT.finditer(arguments)}
    return texts
