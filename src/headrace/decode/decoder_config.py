"""What decodes, on which device, and where its frames are left: one value."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, get_args

from headrace.config_fields import Option
from headrace.errors import BackendError, ConfigError

_CURES: Final = {
    "leave gpu out": "leave --decode out",
    "leave backend out": "leave --decode out",
    "; if it is short, give a smaller memory_budget, batch or size; "
    "or leave keeps_on_device out": "",
}
"""What to do, in words of the library -> in those of a command."""


def in_option_words(message: str) -> str:
    """Return a message with the cure that a command has."""
    for cure, ours in _CURES.items():
        message = message.replace(cure, ours)
    return message


@contextmanager
def saying_option() -> Iterator[None]:
    """Raise what is raised inside in the words of the option.

    Raises:
        BackendError: as inside, with the same cause.
    """
    try:
        yield
    except BackendError as error:
        raise BackendError(in_option_words(str(error))) from error.__cause__


Backend = Literal["pyav", "torchcodec", "pynvvideocodec"]
"""Decoding backends there are; the latter two are the packages of those names, extras."""

BACKENDS: tuple[Backend, ...] = get_args(Backend)
"""Their names."""


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """How videos are decoded; the same for all that opens them.

    - `DecoderConfig()` decodes on the CPU.
    - `DecoderConfig.on_gpu(0)` decodes on the first GPU; its frames are equal bit by bit.
    - `DecoderConfig(device="auto")` sends each job to the CPU or the GPU (`AutoDecoder`).
    - `DecoderConfig(backend="torchcodec")` gives the same frames within `PixelDifference`.
    - `DecoderConfig(backend="pynvvideocodec", device="cuda:0")` gives the frames of `on_gpu(0)`,
      decoded by NVIDIA's own library.

    Raises:
        BackendError: there is no such backend.
        ConfigError: there is no such kind of device, or not with that backend; or a value is of
            another type.
    """

    backend: Backend = "pyav"
    """The library that decodes."""
    device: str = "cpu"
    """Where: `cpu`, or `cuda:N`, an NVIDIA GPU by its number, as torch counts those that
    CUDA_VISIBLE_DEVICES leaves; or `auto`, the CPU and GPU 0, each job where it ends sooner."""
    keeps_on_device: bool = False
    """Whether frames stay on the device, as tensors; else they come down to the CPU, as arrays.
    Their RGB is made there, within a few grey levels of the CPU's: see `TensorConverter`. With the
    CPU as device the same tensors are made there."""

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
                "pynvvideocodec decodes on NVIDIA GPUs only, and was to decode on the CPU; name "
                "the GPU too, as in pynvvideocodec:cuda:0 or device='cuda:0', or leave it out"
            )
        if self.is_auto and self.backend != "pyav":
            raise ConfigError(
                f"the CPU and the GPU share the work by PyAV, whose frames are the same on both; "
                f"got {self.backend} on auto: leave the backend out, or name a device"
            )

    @classmethod
    def on_gpu(cls, gpu: int | None) -> "DecoderConfig":
        """Return decoding on NVIDIA GPU number `gpu`, from where frames come down; None: the CPU.

        The one place where what callers type as `gpu=` becomes this value.
        """
        return ON_CPU if gpu is None else cls(device=f"cuda:{gpu}")

    @classmethod
    def chosen(cls, decoding: "DecoderConfig | None", gpu: int | None = None) -> "DecoderConfig":
        """Return what decodes where callers may say it in full or by the number of a GPU.

        Raises:
            ConfigError: they said both, or something else.
        """
        if decoding is not None and not isinstance(decoding, DecoderConfig):
            raise ConfigError(
                f"decoding must be a headrace.DecoderConfig, got {decoding!r}; give one, as in "
                "DecoderConfig(device='cuda:0') or DecoderConfig.named('cuda:0')"
            )
        if decoding is not None and gpu is not None:
            raise ConfigError(f"give decoding or gpu, got both: {decoding} and gpu={gpu}")
        return decoding or cls.on_gpu(gpu)

    @classmethod
    def named(cls, way: str, *, keeps_on_device: bool = False) -> "DecoderConfig":
        """Return the decoding that a command line names: `cpu`, `auto`, `torchcodec:cuda:1`, ...

        Args:
            way: A device, or a backend, or both with a colon between. `cuda` is `cuda:0`; a backend
                alone decodes on the CPU.
            keeps_on_device: As in the value.

        Raises:
            ConfigError: it is no word, or names no device; BackendError: no backend.
        """
        if not isinstance(way, str):
            raise ConfigError(f"a way to decode is a word, such as 'cuda:0', got {way!r}")
        first, _, rest = way.partition(":")
        is_device = first in ("cpu", "cuda", "auto")
        backend, device = ("pyav", way) if is_device else (first, rest or "cpu")
        if backend not in BACKENDS:
            raise BackendError(
                f"no way to decode {way!r}; name a device, cpu, cuda:N or auto, or a backend of "
                f"{', '.join(BACKENDS)}, or both, as in torchcodec:cuda:0"
            )
        device = "cuda:0" if device == "cuda" else device
        return cls(backend=backend, device=device, keeps_on_device=keeps_on_device)

    @property
    def name(self) -> str:
        """What decodes, and where, as `named` takes it: `pyav:cuda:0`."""
        return f"{self.backend}:{self.device}"

    @property
    def gpu(self) -> int | None:
        """Number of the GPU; None: the CPU decodes, or each job is asked for (`is_auto`)."""
        _, is_numbered, number = self.device.partition(":")
        return int(number) if is_numbered else None

    @property
    def in_words(self) -> str:
        """What decodes, as messages call it: `GPU 0`, `torchcodec on the CPU`."""
        device = "the CPU" if self.gpu is None else f"GPU {self.gpu}"
        return device if self.backend == "pyav" else f"{self.backend} on {device}"

    @property
    def cure(self) -> str:
        """What to leave out so that PyAV decodes on the CPU, as messages say it."""
        return f"leave {'gpu' if self.backend == 'pyav' else 'backend'} out"

    @property
    def is_auto(self) -> bool:
        """Whether each job is sent to the CPU or the GPU."""
        return self.device == "auto"

    @property
    def can_keep(self) -> bool:
        """Whether the backend can leave frames on its device."""
        return self.backend != "torchcodec"

    @property
    def stays_on_gpu(self) -> bool:
        """Whether frames stay on a GPU, or would where there is one; on the CPU they always do."""
        return self.keeps_on_device and self.device != "cpu"

    def check_comes_down(self) -> None:
        """Do nothing unless frames stay on a GPU, where arrays are wanted.

        Raises:
            BackendError: they do.
        """
        if self.stays_on_gpu:
            raise BackendError(
                f"frames were to stay on {self.device}, and are given as arrays on the CPU here; "
                "open_device_decoder gives them there, as do loaders, headrace.open, read_clip and "
                "read_frames; or leave keeps_on_device out"
            )


ON_CPU = DecoderConfig()
"""PyAV on the CPU, which is what decodes unless something else is asked for."""


DECODE_OPTION: Final = Option(
    "What decodes files, and where: the CPU, an NVIDIA GPU, both, or another library.",
    metavar="cpu|cuda[:N]|auto|torchcodec[:cuda:N]|pynvvideocodec:cuda[:N]",
    check=DecoderConfig.named,
    completions={
        "cpu": "PyAV, on the CPU",
        "cuda": "NVDEC, on the first NVIDIA GPU",
        "auto": "the CPU and the first NVIDIA GPU, each where it is sooner",
        "torchcodec": "torchcodec, on the CPU",
        "torchcodec:cuda": "torchcodec, on the first NVIDIA GPU",
        "pynvvideocodec:cuda": "PyNvVideoCodec, on the first NVIDIA GPU",
    },
)
"""`cuda:1` is the second GPU."""
