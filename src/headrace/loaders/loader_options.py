"""Options of the loaders, and the decorator that types them as keyword arguments."""

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
"""What an iteration does after one that ended before its epoch: deliver the rest of that epoch, so
that no sample is passed over, or start the epoch again."""

OnBad = Literal["raise", "skip", "conceal", "mask"]
"""What bad media does: as `OnError`, or `mask`: in a sample of many frames, frames that cannot be
decoded are black and masked, and the others are delivered."""


def check_decoding(decoding: DecoderConfig) -> None:
    """Check that the decoder's backend and GPU are present. CUDA is not started.

    Raises:
        BackendError: one is missing.
    """
    check_gpu(decoding.gpu)
    capabilities_of(decoding)


def check_stay(
    decoding: DecoderConfig, device: torch.device | str | None, pin_memory: bool
) -> None:
    """Check that batches are delivered where frames stay: nothing is copied silently.

    Raises:
        ConfigError: batches would go through page-locked memory, or to another device.
    """
    if not decoding.keeps_on_device:
        return
    decoding_device = device_of(decoding)
    if pin_memory and decoding.stays_on_gpu:
        raise ConfigError(
            "pin_memory=True is for batches that go from the CPU to a GPU, and frames stay on "
            f"{decoding_device}; leave pin_memory out"
        )
    if device is not None and _numbered_name(torch.device(device)) != decoding_device:
        raise ConfigError(
            f"device={str(device)!r} must be the device of frames that stay, {decoding_device}; "
            "leave device out, or leave keeps_on_device out, so that frames come to the CPU"
        )


def check_gpu(gpu: int | None) -> None:
    """Check that a GPU of this index is present; None is none. CUDA is not started.

    Raises:
        ConfigError: it is no index of a GPU.
        BackendError: the GPU is missing.
    """
    if gpu is None:
        return
    check_integers(0, gpu=gpu)
    count = torch.cuda.device_count()
    if gpu >= count:
        found = describe_devices("GPU 0", f"GPU {count - 1}", count)
        raise BackendError(
            f"decoding on GPU {gpu} was asked for, torch {torch.__version__} finds {found}; or "
            "leave gpu out to decode on the CPU"
        )


def _numbered_name(device: torch.device) -> str:
    """Return a device's name as in `DecoderConfig`: a GPU without an index is the first."""
    return f"cuda:{device.index or 0}" if device.type == "cuda" else device.type


@dataclass(frozen=True, kw_only=True)
class LoaderOptions:
    """Options of every loader.

    A loader checks them when it opens, not here, so that a rank that fails can report it to the
    ranks that wait for it (`epochs.agreement`).

    Args:
        decoding: Decoder and device; None: PyAV on the CPU. Frames are the same for all, bit for
            bit with PyAV, unless they stay on the device (`keeps_on_device=True`). Batches then
            lie on the device, ready for the current CUDA stream of the thread that iterates.
            `DecoderConfig(device="auto")` sends each job to GPU 0 or to the CPU, whichever ends it
            sooner; `statistics.decoded_by` counts both.
        gpu: Index of the NVIDIA GPU that decodes, short for `DecoderConfig.on_gpu(gpu)`. Frames are
            copied to the CPU; `device` moves batches.
        num_threads: Decoding threads, each with its own decoder; None: one for each core that this
            process may use. With `auto`, threads that wait for the GPU come on top.
        transform: Called with the frames of each sample, on their device, in the thread that
            iterates; `WithSample` passes the other entries of the sample too. Random numbers that
            it draws from PyTorch, NumPy or `random` follow from seed, epoch and place in the epoch,
            so they are the same for any number of threads and ranks, and after resuming.
        batch_transform: Called once with the frames of each batch, after `transform`: one draw for
            all samples.
        device: Device of batches; None: the CPU, or the device that frames stay on. Frames that
            stay on a device go to no other.
        pin_memory: Copy batches to page-locked memory. With a GPU as `device` they are copied from
            there on a CUDA stream of their own, while the GPU works on the batch before. The
            current stream of the thread that iterates waits for the copy, the process does not. The
            GPU holds one batch more, and the process is at most one step ahead of it.
        rank: Rank of this process among `num_replicas`; None: its rank in torch.distributed if that
            is initialised, and 0 otherwise.
        num_replicas: Processes that share an epoch; None as for `rank`.
        on_early_exit: What the next iteration does after one that ended before its epoch (`break`,
            a limit of batches): `continue` with the rest of the epoch, or `restart` it. None
            continues if each epoch has another order, as in training, and restarts if all epochs
            are alike, as in evaluation.
        stall_seconds: Seconds that a thread may spend on one job before it counts as hung; None: no
            limit.
        index_store: Where indexes are kept; None means the user's cache folder.
        spill: Folder on a local disk for decoded frames, packed; None: none. Stored frames are read
            in place of decoding, whichever worker, rank, run, loader or reader of the same videos,
            size and conversion stored them. A loader with `hold` decodes and stores whole GOPs, and
            frames wait packed as they are stored; a `CameraLoader` stores what it delivers. Not
            with `augment`. See `headrace plan --spill` for the bytes that a set needs.
        spill_budget: Most bytes in that folder, as a number or like "50GB"; the oldest frames go
            first. None: what the folder was last opened with, or 50 GB.
        clock: Clock that measures waiting.
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

    # Options of some loaders, which are fields there.
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
            ConfigError: `gpu` is no index of a GPU, or both `decoding` and `gpu` are given.
        """
        if self.gpu is not None:
            check_integers(0, gpu=self.gpu)
        decoding = DecoderConfig.resolve(self.decoding, self.gpu)
        check_decoding(decoding)
        return decoding

    def scheduler(self) -> DeviceScheduler | None:
        """Return the scheduler that sends jobs to the GPU or the CPU; None unless `auto`."""
        if not self.decoder().is_auto:
            return None
        return DeviceScheduler(cores=self.thread_count(), clock=self.clock)

    def open_spill(self, *, is_augmented: bool) -> SpillStore | None:
        """Return the store of `spill`. Raises as the function does."""
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
        """Return what is done to the frames of a batch.

        Raises as `Collate` does, and ConfigError if it would copy frames that stay on a device.
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
    """Options of a loader that plans its decoding.

    Args:
        batch_size: Samples in a batch of this rank; the last batch of an epoch may have fewer.
        size: (height, width) of the frames; None keeps that of the videos, which must be equal.
        fit: How another aspect ratio is fitted to `size`: `stretch`, `cover` (cut what reaches
            beyond) or `contain` (all of the frame, on black).
        interpolation: How frames are resized: `area`, or torchvision's antialiased `bilinear` or
            `bicubic`, at about twice the cost.
        dtype: `uint8`, or `uint16`, in twice the bytes, for video of more than 8 bits.
        memory_budget: Bytes, as a number or like "256MiB", for decoded frames that wait, for two
            batches, and for codecs, some 11 MB for each thread at 720p (codecs that need more than
            a quarter of the budget come on top). Open files, in up to a sixteenth of the budget,
            come on top. Where frames stay on a GPU, it is memory of that GPU, and its codecs come
            on top.
        hold: How decoded frames wait. `rgb`: as pixels. `packed`: by a lossless codec, in a half to
            a third of the bytes, at about 1.5 ms of one core for each 256x256 frame, so that more
            frames fit and fewer are decoded twice. `auto`: the faster of the two, by what both cost
            with the first frames; `statistics.packed` has the figures. All three deliver the same
            bits. `yuv420`: in half the bytes of `rgb`, with colour at half the resolution;
            `packed_yuv420`: the same, packed.
        lookahead: Requests for single frames that are planned together; all frames of a clip are
            requests. None takes as many as the budget is expected to hold, and starts with one
            batch, so that the first batch comes as soon as without look-ahead; in a single pass
            over a set, a number decodes less. 1 is naive random access.
        seed: Seed of the batches; None: that of the sampler, which is 0 by default. A sampler with
            a seed above 0 needs the same one here.
        drop_last: Drop the last batch of an epoch if it is smaller; one batch must remain.
        on_error: What bad media does. `skip` skips a video that cannot be opened, and replaces a
            sample that cannot be decoded by another draw, by a rule that does not depend on timing;
            both are counted, and listed in `quarantined`. `conceal` delivers a damaged frame as
            FFmpeg shows it, marked in `Batch.is_concealed`. With either, ranks of torch.distributed
            compare what they skipped, so each of them must open its loader.
        quarantine: File in which bad frames are listed, too; the next run skips them from its
            start, with the same batches.
        prefetch_next_epoch: Decode the start of the next epoch while one ends. False ends all
            threads with each epoch: for evaluation.
    """

    _ON_ERROR: ClassVar[tuple[str, ...]] = get_args(OnError)
    """Choices of `on_error`."""

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
        self.shape(self.size, "rgb")  # refuses impossible sizes
        if self.hold in LAYOUTS and self.dtype != "uint8":
            raise ConfigError(
                f"hold={self.hold!r} stores 8 bits, fewer than dtype={self.dtype!r}; leave out one "
                "of the two"
            )
        if self.decoder().keeps_on_device and (self.hold.startswith("packed") or self.spill):
            raise ConfigError(
                "frames that stay on a device are not packed, and not stored on a disk; leave out "
                f"hold={self.hold!r} and spill, or keeps_on_device"
            )

    def shape(self, size: tuple[int, int] | None, layout: Layout) -> FrameFormat:
        """Return the format of frames that wait in a layout. Raises as `FrameFormat`."""
        return FrameFormat(
            size=size,
            fit=self.fit,
            interpolation=self.interpolation,
            layout=layout,
            dtype=self.dtype,
        )

    @property
    def held_layout(self) -> Layout:
        """Layout of frames that wait, or of what is packed."""
        return LAYOUTS.get(self.hold, "rgb")

    @property
    def masks_bad(self) -> bool:
        """Whether a sample is delivered without its bad frames, instead of replaced."""
        return self.on_error == "mask"


P = ParamSpec("P")
Owner = TypeVar("Owner")
Options = TypeVar("Options")

_ARGUMENT = re.compile(r"^    (\w+): .*(?:\n {5,}.*)*", re.MULTILINE)
"""The text of one argument in a docstring."""


def takes(
    options: Callable[P, Options],
) -> Callable[[Callable[[Owner, Options], None]], Callable[Concatenate[Owner, P], None]]:
    """Let an `__init__` that takes one dataclass be called with the fields of the dataclass.

        @takes(FrameLoaderOptions)
        def __init__(self, options: FrameLoaderOptions) -> None: ...

    `FrameLoader(videos, batch_size=8)` passes `FrameLoaderOptions(videos, batch_size=8)`. Each
    argument is written once, with its type, default and doc; type checkers, `help` and
    `inspect.signature` see it where it is typed. (A TypedDict to unpack holds no defaults; and if
    the loader itself were the dataclass, its arguments could be set later, to no effect.)
    """

    def decorate(init: Callable[[Owner, Options], None]) -> Callable[Concatenate[Owner, P], None]:
        # Those of the dataclass itself first, then the inherited ones.
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
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        with_arguments.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
        texts = _argument_texts(cast(type, options))
        lines = "\n".join(texts[name] for name in known)
        with_arguments.__doc__ = f"{inspect.getdoc(init)}\n\nArgs:\n{lines}\n"
        return with_arguments

    return decorate


def _argument_texts(options: type) -> dict[str, str]:
    """Return the indented text of each argument; that of a class replaces that of its parents."""
    texts: dict[str, str] = {}
    for owner in reversed(options.__mro__):
        _, _, arguments = inspect.cleandoc(owner.__doc__ or "").partition("\nArgs:\n")
        texts |= {match[1]: match[0] for match in _ARGUMENT.finditer(arguments)}
    return texts
