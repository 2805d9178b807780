"""DecoderConfig: the backend, the device and where decoded frames stay."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, get_args

from headrace.config_fields import Option
from headrace.errors import BackendError, ConfigError

_FIXES: Final = {
    "leave gpu out": "leave --decode out",
    "leave backend out": "leave --decode out",
    "; if it is short, give a smaller memory_budget, batch or size; "
    "or leave keeps_on_device out": "",
}
"""Advice for library callers -> advice for command lines."""


def to_option_words(message: str) -> str:
    """Return a message with advice for command lines."""
    for fix, ours in _FIXES.items():
        message = message.replace(fix, ours)
    return message


@contextmanager
def use_option_words() -> Iterator[None]:
    """Reword BackendErrors raised inside for command lines.

    Raises:
        BackendError: as inside, with the same cause.
    """
    try:
        yield
    except BackendError as error:
        raise BackendError(to_option_words(str(error))) from error.__cause__


Backend = Literal["pyav", "torchcodec", "pynvvideocodec"]
"""Decoding backends; the last two are extras, named like their packages."""

BACKENDS: tuple[Backend, ...] = get_args(Backend)
"""Names of the backends."""


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Decoding configuration, the same for everything that opens videos.

    - `DecoderConfig()` decodes on the CPU.
    - `DecoderConfig.on_gpu(0)` decodes on the first GPU; frames are equal bit by bit.
    - `DecoderConfig(device="auto")` sends each job to the CPU or the GPU (`AutoDecoder`).
    - `DecoderConfig(backend="torchcodec")` gives the same frames within `PixelDifference`.
    - `DecoderConfig(backend="pynvvideocodec", device="cuda:0")` gives the frames of `on_gpu(0)`,
    decoded by NVIDIA's library.

    Raises:
        BackendError: the backend does not exist.
        ConfigError: the device does not exist, or not for this backend; or a value has the wrong
            type.
    """

    backend: Backend = "pyav"
    """The decoding library."""
    device: str = "cpu"
    """`cpu`; `cuda:N`, an NVIDIA GPU by its PyTorch index, which follows CUDA_VISIBLE_DEVICES; or
    `auto`, the CPU and GPU 0, each job where it finishes sooner."""
    keeps_on_device: bool = False
    """Whether frames stay on the device as tensors; else they are copied to the CPU as arrays.
    Their RGB is computed on the device, within a few grey levels of the CPU's: see
    `TensorConverter`. With device `cpu` the tensors are computed there."""

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise BackendError(f"no backend {self.backend!r}; there is {', '.join(BACKENDS)}")
        is_word = isinstance(self.device, str)
        if not is_word or not re.fullmatch(r"cpu|auto|cuda:\d+", self.device):
            raise ConfigError(
                f"device must be cpu or cuda:N, as in cuda:0, or auto, got {self.device!r}"
            )
        if not isinstance(self.keeps_on_device, bool):
            raise ConfigError(
                f"keeps_on_device must be True or False, got {self.keeps_on_device!r}"
            )
        if self.backend == "pynvvideocodec" and self.device == "cpu":
            raise ConfigError(
                "pynvvideocodec decodes on NVIDIA GPUs only, got the CPU; name the GPU too, as in "
                "pynvvideocodec:cuda:0 or device='cuda:0', or leave it out"
            )
        if self.is_auto and self.backend != "pyav":
            raise ConfigError(
                f"device auto needs the backend pyav, whose frames are equal on CPU and GPU; "
                f"got {self.backend}: leave the backend out, or name a device"
            )

    @classmethod
    def on_gpu(cls, gpu: int | None) -> "DecoderConfig":
        """Return decoding on NVIDIA GPU number `gpu`, with frames copied to the CPU; None: the CPU.

        The one place that converts a `gpu=` argument.
        """
        return ON_CPU if gpu is None else cls(device=f"cuda:{gpu}")

    @classmethod
    def resolve(cls, decoding: "DecoderConfig | None", gpu: int | None = None) -> "DecoderConfig":
        """Return the configuration from the arguments `decoding` and `gpu`.

        Raises:
            ConfigError: both are given, or `decoding` has the wrong type.
        """
        if decoding is not None and not isinstance(decoding, DecoderConfig):
            raise ConfigError(
                f"decoding must be a headrace.DecoderConfig, got {decoding!r}; give one, as in "
                "DecoderConfig(device='cuda:0') or DecoderConfig.parse('cuda:0')"
            )
        if decoding is not None and gpu is not None:
            raise ConfigError(f"give decoding or gpu, got both: {decoding} and gpu={gpu}")
        return decoding or cls.on_gpu(gpu)

    @classmethod
    def parse(cls, spec: str, *, keeps_on_device: bool = False) -> "DecoderConfig":
        """Return the configuration of a command-line word: `cpu`, `auto`, `torchcodec:cuda:1`, ...

        Args:
            spec: A device, or a backend, or both with a colon between. `cuda` is `cuda:0`; a
                backend alone decodes on the CPU.
            keeps_on_device: See the field.

        Raises:
            ConfigError: the device is unknown; BackendError: the backend is unknown.
        """
        if not isinstance(spec, str):
            raise ConfigError(f"a way to decode is a word, such as 'cuda:0', got {spec!r}")
        first, _, rest = spec.partition(":")
        is_device = first in ("cpu", "cuda", "auto")
        backend, device = ("pyav", spec) if is_device else (first, rest or "cpu")
        if backend not in BACKENDS:
            raise BackendError(
                f"no way to decode {spec!r}; name a device, cpu, cuda:N or auto, or a backend of "
                f"{', '.join(BACKENDS)}, or both, as in torchcodec:cuda:0"
            )
        device = "cuda:0" if device == "cuda" else device
        return cls(backend=backend, device=device, keeps_on_device=keeps_on_device)

    @property
    def name(self) -> str:
        """Backend and device, as `parse` reads them: `pyav:cuda:0`."""
        return f"{self.backend}:{self.device}"

    @property
    def gpu(self) -> int | None:
        """Number of the GPU; None for the CPU, and for `auto`, which chooses per job."""
        _, is_numbered, number = self.device.partition(":")
        return int(number) if is_numbered else None

    @property
    def description(self) -> str:
        """Backend and device in messages: `GPU 0`, `torchcodec on the CPU`."""
        device = "the CPU" if self.gpu is None else f"GPU {self.gpu}"
        return device if self.backend == "pyav" else f"{self.backend} on {device}"

    @property
    def fix(self) -> str:
        """The advice in messages that leads back to PyAV on the CPU."""
        return f"leave {'gpu' if self.backend == 'pyav' else 'backend'} out"

    @property
    def is_auto(self) -> bool:
        """Whether each job is scheduled on the CPU or the GPU."""
        return self.device == "auto"

    @property
    def can_keep(self) -> bool:
        """Whether the backend can keep frames on its device."""
        return self.backend != "torchcodec"

    @property
    def stays_on_gpu(self) -> bool:
        """Whether frames stay on a GPU, if there is one; on the CPU they always do."""
        return self.keeps_on_device and self.device != "cpu"

    def check_comes_down(self) -> None:
        """Check that frames are copied to the CPU, for code that needs arrays.

        Raises:
            BackendError: they stay on a GPU.
        """
        if self.stays_on_gpu:
            raise BackendError(
                f"frames cannot stay on {self.device} here, where arrays on the CPU are returned; "
                "use open_device_decoder, a loader, headrace.open, read_clip or read_frames; "
                "or leave keeps_on_device out"
            )


ON_CPU = DecoderConfig()
"""PyAV on the CPU: the default."""


DECODE_OPTION: Final = Option(
    "Decoder of files: on the CPU, on an NVIDIA GPU, on both, or by another library.",
    metavar="cpu|cuda[:N]|auto|torchcodec[:cuda:N]|pynvvideocodec:cuda[:N]",
    check=DecoderConfig.parse,
    completions={
        "cpu": "PyAV, on the CPU",
        "cuda": "NVDEC, on the first NVIDIA GPU",
        "auto": "the CPU and the first NVIDIA GPU, whichever finishes earlier",
        "torchcodec": "torchcodec, on the CPU",
        "torchcodec:cuda": "torchcodec, on the first NVIDIA GPU",
        "pynvvideocodec:cuda": "PyNvVideoCodec, on the first NVIDIA GPU",
    },
)
"""`cuda:1` is the second GPU."""
