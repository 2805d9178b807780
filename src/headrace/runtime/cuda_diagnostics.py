"""Diagnosis of a missing NVIDIA GPU in PyTorch; does not start CUDA."""

import ctypes
from collections.abc import Callable

import torch

DRIVER = "libcuda.so.1"
"""Library of NVIDIA's driver."""


def explain_missing_gpu(load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> str:
    """Return why PyTorch finds no GPU, with advice, for an error message. Cost: some ms.

    Args:
        load: Loads a library, or raises OSError.
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
            f"the NVIDIA driver is not installed ({DRIVER} is not found); install it, or start the "
            "container with --gpus all"
        )
    major, minor = _version(driver)
    if 0 < major < int(built_for.partition(".")[0]):
        return (
            f"the NVIDIA driver is for CUDA {major}.{minor}, but PyTorch {torch.__version__} needs "
            f"CUDA {built_for}; install a newer driver, or a PyTorch for CUDA {major}"
        )
    return (
        "the NVIDIA driver is installed but finds no GPU; run nvidia-smi, and check whether "
        "CUDA_VISIBLE_DEVICES hides it"
    )


def _version(driver: ctypes.CDLL) -> tuple[int, int]:
    """Return the CUDA version of a driver as (major, minor); (0, 0) if unknown.

    `cuDriverGetVersion` works before `cuInit`, so CUDA is not started.
    """
    version = ctypes.c_int(0)
    try:
        driver.cuDriverGetVersion(ctypes.byref(version))
    except AttributeError:
        return 0, 0
    return version.value // 1000, version.value % 1000 // 10
