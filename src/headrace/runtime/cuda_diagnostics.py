"""Why PyTorch finds no NVIDIA GPU here, in words; nothing is started to find that out."""

import ctypes
from collections.abc import Callable

import torch

DRIVER = "libcuda.so.1"
"""NVIDIA's driver, as programs load it."""


def why_no_gpu(load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> str:
    """Return why there is none, and what to do: for a message of who needs one. Cost: some ms.

    Args:
        load: What loads a library, raising OSError where there is none; a test hands in its own.
    """
    built_for = torch.version.cuda
    if built_for is None:
        return (
            f"PyTorch {torch.__version__} is built without CUDA; install a build with it "
            "(https://pytorch.org/get-started)"
        )
    try:
        driver = load(DRIVER)
    except OSError:
        return (
            f"there is no NVIDIA driver here ({DRIVER} is not found); install it, or give the "
            "container its GPUs (--gpus all)"
        )
    major, minor = _version(driver)
    if 0 < major < int(built_for.partition(".")[0]):
        return (
            f"the NVIDIA driver is for CUDA {major}.{minor}, and PyTorch {torch.__version__} needs "
            f"one for CUDA {built_for}; install a newer driver, or a PyTorch for CUDA {major}"
        )
    return (
        "the NVIDIA driver is here and gives no GPU; see what nvidia-smi says, and whether "
        "CUDA_VISIBLE_DEVICES hides it"
    )


def _version(driver: ctypes.CDLL) -> tuple[int, int]:
    """Return the CUDA that a driver is for, as (major, minor); (0, 0) where it does not tell.

    `cuDriverGetVersion` is answered before `cuInit`, so that CUDA is not started.
    """
    found = ctypes.c_int(0)
    try:
        driver.cuDriverGetVersion(ctypes.byref(found))
    except AttributeError:
        return 0, 0
    return found.value // 1000, found.value % 1000 // 10
