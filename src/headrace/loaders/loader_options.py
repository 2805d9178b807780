"""What may be asked of every loader."""

from dataclasses import dataclass, replace

import torch

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.device_scheduler import DeviceScheduler
from headrace.decode.index_store import IndexStore
from headrace.loaders.collate import Collate
from headrace.loaders.devices import check_decoding, check_stay
from headrace.loaders.resumable import OnEarlyExit, check_on_early_exit
from headrace.loaders.transforms import BatchTransform, Transform
from headrace.runtime.affinity import available_cores
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.units import check_integers, check_switches


@dataclass(frozen=True, kw_only=True)
class LoaderOptions:
    """What may be asked of every loader.

    Checked where a loader opens, not here: a rank that fails must be heard of by those that would
    wait for it (`ranks.agreement`).

    Args:
        decoding: What decodes, and where; None: PyAV, on the CPU. Frames are the same, by PyAV bit
            by bit; unless they stay on the device (`keeps_on_device=True`): then batches lie there,
            ready for what the thread that iterates asks of its CUDA stream next.
            `DecoderConfig(device="auto")`: each job on GPU 0 or the CPU, whichever ends it sooner;
            `statistics.decoded_by` tells.
        gpu: Short for `DecoderConfig.on_gpu(gpu)`: the number of the NVIDIA GPU that decodes.
            Frames come down to the CPU; `device` moves batches.
        num_threads: Decoding threads, each with a decoder of its own; None means one for each core
            this process may use. Those that wait for a GPU, by `auto`, come on top.
        transform: Called with the frames of each sample, on their device, in the thread that
            iterates, or `WithSample` to be told which sample it is. What it draws from PyTorch,
            NumPy or `random` follows from seed, epoch and place in the epoch, so that it is the
            same with any number of workers and ranks, and after resuming.
        batch_transform: Called with the frames of each batch, after `transform`: one call, and one
            draw, for all of them.
        device: Where batches go; None leaves them on the CPU, or where frames stay; of these none
            goes elsewhere.
        pin_memory: Copy batches to page-locked memory. With a GPU as `device` they are copied from
            there while it works on the batch before, on a stream of their own: what is asked of the
            current stream of the thread that iterates waits for the copy, and the process does not.
            The GPU holds one batch more, and the process is at most one step ahead of it.
        rank: This process among `num_replicas`; None asks torch.distributed, if it is
            initialised, and is the only one otherwise.
        num_replicas: Processes that share an epoch; None as for `rank`.
        on_early_exit: What follows an epoch that was left before its end (`break`, a limit of
            batches): `continue` with the rest of it, or `restart`. None goes on where every
            epoch is another, as in training; where all are alike, as in evaluation, it begins
            again.
        stall_seconds: How long a worker may be at one job before it is said to hang; None: for
            ever.
        index_store: Where indexes are kept; None means the user's cache folder.
        clock: What measures waiting.
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
    clock: Clock = SYSTEM_CLOCK

    def decoder(self) -> DecoderConfig:
        """Return what decodes.

        Raises:
            BackendError: the backend or the GPU is not here.
            ConfigError: it is no number of one, or both `decoding` and `gpu` are given.
        """
        if self.gpu is not None:
            check_integers(0, gpu=self.gpu)
        decoding = DecoderConfig.chosen(self.decoding, self.gpu)
        check_decoding(decoding)
        return decoding

    def chooser(self) -> DeviceScheduler | None:
        """Return what sends jobs to the GPU and the CPU; None where nothing is to be chosen."""
        if not self.decoder().is_auto:
            return None
        return DeviceScheduler(cores=self.thread_count(), clock=self.clock)

    def check(self) -> None:
        """Refuse what is out of range, or no choice: ConfigError; what decodes and is not here."""
        check_integers(1, num_threads=self.num_threads)
        check_on_early_exit(self.on_early_exit)
        check_switches(pin_memory=self.pin_memory)
        self.decoder()

    def thread_count(self) -> int:
        """Return the number of decoding threads."""
        return len(available_cores()) if self.num_threads is None else self.num_threads

    def collate(self) -> Collate:
        """Return what happens to the pictures of a batch.

        Raises as `Collate` does; and ConfigError where it would copy frames that stay where they
        are.
        """
        collate = Collate(
            transform=self.transform,
            batch_transform=self.batch_transform,
            device=self.device,
            pin_memory=self.pin_memory,
        )
        decoding = self.decoder()
        check_stay(decoding, self.device, self.pin_memory)
        # Such batches are where they are to be.
        return replace(collate, device=None) if decoding.keeps_on_device else collate
