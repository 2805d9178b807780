"""Checks that the devices of batches and decoders are present and fit each other."""

import torch

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.gpu.gpu_decoding import device_of
from headrace.decode.open_decoder import capabilities_of
from headrace.errors import BackendError, ConfigError, first_line
from headrace.runtime.cuda_diagnostics import explain_missing_gpu
from headrace.units import check_integers


def check_device(device: torch.device | str | None, pin_memory: bool) -> None:
    """Check that batches can be copied to `device`, and through page-locked memory.

    CUDA is not started, so that the process may still be forked.

    Raises:
        ConfigError: torch knows no such device.
        BackendError: the device is missing, or memory is to be locked and there is no GPU.
    """
    if device is not None:
        _check_device(device)
    if pin_memory and not torch.cuda.device_count():
        try:
            torch.empty(1).pin_memory()
        except RuntimeError as error:
            raise BackendError(
                f"pin_memory=True is for copies to a GPU, and torch finds none; leave it out "
                f"({first_line(error)[:200]})"
            ) from error


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


def check_comes_to_workers(decoding: DecoderConfig) -> None:
    """Check that frames of a dataset come to the CPU, for worker processes.

    Raises:
        BackendError: they would stay on a device.
    """
    if decoding.keeps_on_device:
        raise BackendError(
            f"frames of a dataset cannot stay on {decoding.device} (keeps_on_device=True): worker "
            "processes of a DataLoader pass on no GPU memory; use FrameLoader or ClipLoader, which "
            "leave frames there, or leave keeps_on_device out"
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
        raise BackendError(
            f"decoding on GPU {gpu} was asked for, torch {torch.__version__} finds "
            f"{_numbered('GPU 0', f'GPU {count - 1}', count)}; or leave gpu out to decode on the "
            "CPU"
        )


def _numbered(first: str, last: str, count: int) -> str:
    return f"{first} to {last}" if count else f"no CUDA device: {explain_missing_gpu()}"


def _numbered_name(device: torch.device) -> str:
    """Return a device's name as in `DecoderConfig`: a GPU without an index is the first."""
    return f"cuda:{device.index or 0}" if device.type == "cuda" else device.type


def _check_device(device: torch.device | str) -> None:
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device must be one that torch knows, such as 'cpu', 'cuda' or 'cuda:1', got "
            f"{device!r}"
        ) from error
    if wanted.type == "cuda":
        count = torch.cuda.device_count()
        if (wanted.index or 0) >= count:
            found = _numbered("'cuda:0'", f"'cuda:{count - 1}'", count)
            raise BackendError(
                f"device {str(wanted)!r} was asked for, torch {torch.__version__} finds {found}; "
                "or leave device out for batches on the CPU"
            )
        return
    try:
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError, ImportError) as error:
        raise BackendError(
            f"device {str(wanted)!r} was asked for, torch {torch.__version__} cannot use it here "
            f"({first_line(error)[:200]}); leave device out for batches on the CPU"
        ) from error
