"""Tensor converter: one decoded PyAV frame to upright RGB in PyTorch, on the frame's device.

Tests run it on the CPU; not yet run on a GPU.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

import torch
from av.video.frame import VideoFrame
from torch.utils.dlpack import from_dlpack

from headrace.decode.converter import output_size, size_change_error
from headrace.decode.resize import Taps, antialiased_cubic, antialiased_linear, area, cubic, linear
from headrace.decode.yuv420 import YuvToRgb, matrix_and_range, yuv_to_rgb
from headrace.errors import BackendError, ConfigError, HeadraceError, first_line
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.video.frame_format import Crop, FrameFormat, Orientation

_BITS: Final = {"nv12": 8, "yuv420p": 8, "yuvj420p": 8, "p010le": 10, "yuv420p10le": 10}
"""FFmpeg's name of a supported 4:2:0 pixel format -> bits per value."""
_SHIFTED: Final = {"p010le": 64}
"""Pixel format -> divisor of its values; P010 stores ten bits at the top of sixteen."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Planes:
    """One frame in YUV 4:2:0 with its stored values: uint8, or float32 for 10 bits."""

    y: torch.Tensor
    """[H, W]: luma."""
    uv: torch.Tensor
    """[2, ceil(H / 2), ceil(W / 2)]: chroma."""
    bits: int
    """Bits per value: 8 or 10."""


def check_stored(stored: str, source: str) -> None:
    """Check that frames of a stored pixel format can become RGB on a device.

    Raises:
        BackendError: they cannot.
    """
    if stored not in _BITS:
        raise BackendError(
            f"frames of {source} are stored as {stored}; on a device only {', '.join(_BITS)} can "
            "become RGB: leave keeps_on_device out"
        )


@contextmanager
def planes_of(frame: VideoFrame, device: torch.device, source: str) -> Iterator[Planes]:
    """Yield the planes of a frame on a device; work on them is submitted inside.

    DLPack shares them without a copy; padding of rows becomes a stride. Work inside runs on this
    thread's CUDA stream. PyAV does not synchronize streams. FFmpeg decodes on the GPU's default
    stream, so this thread's stream waits for it, and it waits for this thread's work before FFmpeg
    reuses the memory. (`record_stream` has no effect on memory that is not PyTorch's.)

    Raises:
        BackendError: frames are stored in another format.
    """
    stored = (frame.sw_format or frame.format).name
    check_stored(stored, source)
    is_on_gpu = frame.sw_format is not None
    working = torch.cuda.current_stream(device) if is_on_gpu else None
    decoding = torch.cuda.default_stream(device) if is_on_gpu else None
    if working is not None and decoding is not None and working != decoding:
        working.wait_stream(decoding)
    try:
        yield _planes(frame, stored, device, source)
    finally:
        if working is not None and decoding is not None and working != decoding:
            decoding.wait_stream(working)


def _planes(frame: VideoFrame, stored: str, device: torch.device, source: str) -> Planes:
    # By capsule: torch.from_dlpack would pass a stream, which PyAV refuses.
    y, *chroma = (from_dlpack(plane.__dlpack__()) for plane in frame.planes)
    half = ((frame.height + 1) // 2, (frame.width + 1) // 2)
    if chroma[0].shape[:2] != half:
        raise BackendError(
            f"frames of {source} are {frame.height}x{frame.width} (height x width) in {stored}; "
            "PyAV omits the last row or column of chroma of an odd side: leave keeps_on_device out"
        )
    bits = _BITS[stored]
    # PyTorch has few operations for uint16.
    kind = torch.uint8 if bits == 8 else torch.float32
    first, *others = (plane.to(device, kind) for plane in (y, *chroma))
    uv = torch.stack(others) if len(others) > 1 else others[0].movedim(-1, 0)
    if (scale := _SHIFTED.get(stored)) is not None:
        first, uv = first / scale, uv / scale
    return Planes(y=first, uv=uv, bits=bits)


_Kernel = Callable[[int, int, float], Taps]
_TapsKey = tuple[_Kernel, int, int, float]
_RGB_KERNELS: dict[str, _Kernel] = {"bilinear": antialiased_linear, "bicubic": antialiased_cubic}

_GPU_REQUESTS: Final = ForkSafeLock()
"""Lock around a frame's GPU requests. A frame takes many short requests, and threads would switch
between them: 4 threads on 2 cores reached 0.45 to 0.55 of one thread's rate."""


class TensorConverter:
    """Converts frames of one stream to tensors: a `Converter`. Not thread-safe: one per decoder.

    Takes YUV 4:2:0 of 8 or 10 bits (NV12, P010, or three planes), on its device or on the CPU.
    Matrix, range, crop, size, fit, interpolation and orientation mean the same as in
    `ArrayConverter`. Values are computed in float32, by the formulas of ITU-T H.273, and rounded
    once.
    Cost: up to 35 bytes of temporary memory per pixel of the frame, or of a larger result; bilinear
    45, bicubic 100 (measured at 2160p, on the CPU).

    Frames differ from swscale's on the CPU, which rounds in between: by at most 6 grey levels and
    2.4 on average; smaller results of an odd width by at most 1. When enlarging noise swscale also
    clips in between, which is up to 46.

    Chroma, at half the resolution, is enlarged as by swscale. At full size, with 8 bits and an even
    number of rows, four pixels share a chroma value. Otherwise chroma is resized separately, by
    averages or linear interpolation; if the width is even, two adjacent pixels share a chroma
    value.
    """

    def __init__(
        self,
        shape: FrameFormat,
        orientation: Orientation,
        source: str,
        device: torch.device | str = "cpu",
        *,
        chroma_is_left: bool = True,
    ) -> None:
        """Use no GPU yet.

        Args:
            shape: Format of the frames.
            orientation: Orientation of the stored frames.
            source: Name of the stream in messages.
            device: Device of the tensors; frames are on it, or on the CPU.
            chroma_is_left: Whether chroma is located at the left of two adjacent pixels, not
                between them.

        Raises:
            BackendError: only the CPU's converter supports this format.
        """
        check_shape(shape, source, device)
        self._shape = shape
        self._orientation = orientation
        self._source = source
        self._device = torch.device(device)
        self._shift = 0.25 if chroma_is_left else 0.0
        self._taps: dict[_TapsKey, tuple[torch.Tensor, torch.Tensor]] = {}
        self._bases: dict[YuvToRgb, torch.Tensor] = {}

    def shape_of(self, frame: VideoFrame) -> tuple[int, ...]:
        """Return the shape of a frame's tensor.

        Raises:
            DecodeError: the crop lies outside the frame, because the stream changes its size.
        """
        return *output_size(frame, self._shape, self._orientation, self._source), 3

    def new(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return an uninitialized tensor of `shape` on the device.

        Raises:
            BackendError: the device is out of memory.
        """
        with self._errors():
            return torch.empty(shape, dtype=torch.uint8, device=self._device)

    def convert(self, frame: VideoFrame, out: torch.Tensor | None) -> torch.Tensor:
        """Return `frame` as uint8 [H, W, 3] in [0, 255], RGB, written into `out` if given.

        On a GPU, work is submitted to this thread's CUDA stream; the frame may be freed at once.

        Raises:
            BackendError: its pixel format or matrix is not supported on a device; or PyTorch fails
                there, for example for lack of memory.
            ConfigError: `out` is not a uint8 tensor on the device.
            DecodeError: it does not fit `out`, because the stream changes its size.
        """
        expected = self.shape_of(frame)
        if out is None:
            out = self.new(expected)
        self._check(out)
        if tuple(out.shape) != expected:
            raise size_change_error(frame, self._source, tuple(out.shape[:2]), expected[:2])
        lock = _GPU_REQUESTS if self._device.type == "cuda" else nullcontext()
        with self._errors(), lock, planes_of(frame, self._device, self._source) as planes:
            self._write(planes, self._yuv_to_rgb(frame, planes.bits), out)
        return out

    def _check(self, out: object) -> None:
        if not isinstance(out, torch.Tensor):
            got = type(out).__name__
        elif out.dtype != torch.uint8 or out.device != self._device:
            got = f"{str(out.dtype).removeprefix('torch.')} on {out.device}"
        else:
            return
        raise ConfigError(
            f"out must be a uint8 tensor on {self._device} for frames of {self._source}, got {got}"
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise PyTorch's errors as BackendErrors."""
        try:
            yield
        except HeadraceError:
            raise
        except (RuntimeError, TypeError, ValueError) as error:
            reason = first_line(error)[:200]
            raise BackendError(
                f"frames of {self._source} cannot be made into tensors on {self._device}: "
                f"{reason}; if memory is short, read fewer files or frames at a time, or smaller "
                "ones; or leave keeps_on_device out"
            ) from error

    def _yuv_to_rgb(self, frame: VideoFrame, bits: int) -> YuvToRgb:
        matrix, span = matrix_and_range(frame)
        coefficients = yuv_to_rgb(matrix, span, bits)
        if coefficients is None:
            raise BackendError(
                f"frames of {self._source} have color matrix {matrix}; only BT.601, BT.709, "
                "BT.2020, FCC and SMPTE 240M can become RGB: re-encode the file with another matrix"
            )
        return coefficients

    def _write(self, planes: Planes, coefficients: YuvToRgb, out: torch.Tensor) -> None:
        shape, orientation = self._shape, self._orientation
        size = _size(planes.y)
        image: torch.Tensor | None = None
        if shape.crop is not None:
            image = _cut(
                self._rgb(planes, coefficients, size), orientation.stored_crop(shape.crop, size)
            )
            size = _size(image)
        fitting = shape.fitting(orientation.upright_size(size))
        stored = orientation.upright_size(fitting.scaled)
        if shape.interpolation != "area":
            image = self._rgb(planes, coefficients, size) if image is None else image
            image = self._resize(image, stored, _RGB_KERNELS[shape.interpolation])
        elif image is None:
            image = self._rgb(planes, coefficients, stored)
        else:
            shrinks = stored[0] <= size[0] and stored[1] <= size[1]
            image = self._resize(image, stored, area if shrinks else cubic)
        fitting.place(_upright(image, orientation).movedim(0, -1), out)

    def _rgb(self, planes: Planes, coefficients: YuvToRgb, size: tuple[int, int]) -> torch.Tensor:
        """Return an RGB image in stored orientation, float32 [3, *size] in whole levels."""
        height, width = size
        whole = _size(planes.y)
        shrinks = height <= whole[0] and width <= whole[1]
        kernel = area if shrinks else cubic
        y = self._along(planes.y, -1, width, kernel)
        y = self._along(y, -2, height, kernel)
        uv, rows, columns = planes.uv, 2, 2
        if size != whole or planes.bits > 8 or height % 2:
            rows, columns = 1, 2 - width % 2
            for side, length, shift in ((-1, width // columns, self._shift), (-2, height, 0.0)):
                grows = kernel is area and length >= uv.shape[side]
                uv = self._along(uv, side, length, linear if grows else kernel, shift)
        chroma = self._chroma_part(uv, coefficients)
        if width % columns:
            chroma, columns = chroma.repeat_interleave(columns, -1)[..., :width], 1
        # Pixels that share their chroma form a block, so that chroma is computed once per block.
        blocks = height // rows, rows, width // columns, columns
        rgb = chroma.new_empty((3, *blocks))
        torch.add(chroma[:, :, None, :, None], y.reshape(blocks), alpha=coefficients.luma, out=rgb)
        return _levels(rgb.view(3, height, width))

    def _chroma_part(self, uv: torch.Tensor, coefficients: YuvToRgb) -> torch.Tensor:
        """Return the chroma part of red, green and blue, float32 [3, H, W] as `uv`."""
        u, v = uv
        chroma = uv.new_empty((3, *_size(uv)), dtype=torch.float32)
        torch.mul(v, coefficients.red_by_v, out=chroma[0])
        torch.mul(u, coefficients.green_by_u, out=chroma[1])
        chroma[1].add_(v, alpha=coefficients.green_by_v)
        torch.mul(u, coefficients.blue_by_u, out=chroma[2])
        if coefficients not in self._bases:
            base = torch.tensor(coefficients.base, dtype=torch.float32)
            self._bases[coefficients] = base[:, None, None].to(self._device)
        return chroma.add_(self._bases[coefficients])

    def _resize(self, image: torch.Tensor, size: tuple[int, int], kernel: _Kernel) -> torch.Tensor:
        """Return whole levels [3, H, W] as [3, *size], rounded after each side, as Pillow does."""
        for side, length in ((-1, size[1]), (-2, size[0])):
            if image.shape[side] != length:
                image = _levels(self._along(image, side, length, kernel))
        return image

    def _along(
        self, samples: torch.Tensor, side: int, length: int, kernel: _Kernel, shift: float = 0
    ) -> torch.Tensor:
        """Return samples resampled along one side, the last or the one before, in float32.

        Returns the same tensor if the length is unchanged.
        """
        before = samples.shape[side]
        if before == length and not shift:
            return samples
        key = kernel, before, length, shift
        if key not in self._taps:
            taps = kernel(before, length, shift)
            self._taps[key] = (
                torch.from_numpy(taps.index).to(self._device),
                torch.from_numpy(taps.weights).to(self._device, torch.float32),
            )
        index, weights = self._taps[key]
        # Not a matrix product, which may use TF32 on a GPU.
        if side == -1:
            return _weighted(samples[..., index], weights).sum(-1)
        return _weighted(samples[..., index, :], weights[..., None]).sum(-2)


def check_shape(shape: FrameFormat, source: str, device: torch.device | str) -> None:
    """Check that a device can convert frames to this format.

    Raises:
        BackendError: only the CPU can.
    """
    for requested, supported in ((shape.layout, "rgb"), (shape.dtype, "uint8")):
        if requested != supported:
            raise BackendError(
                f"frames of {source} on {device} must be {supported}, got {requested}; "
                "leave keeps_on_device out"
            )


def _size(image: torch.Tensor) -> tuple[int, int]:
    height, width = image.shape[-2:]
    return height, width


def _weighted(samples: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the product in float32; in the memory of `samples` if possible."""
    return samples.mul_(weights) if samples.is_floating_point() else samples * weights


def _levels(samples: torch.Tensor) -> torch.Tensor:
    """Return samples as whole levels from 0 to 255, in the same memory."""
    return samples.round_().clamp_(0, 255)


def _cut(image: torch.Tensor, crop: Crop) -> torch.Tensor:
    return image[:, crop.top :, crop.left :][:, : crop.height, : crop.width]


def _upright(image: torch.Tensor, orientation: Orientation) -> torch.Tensor:
    """Return [3, H, W] in upright orientation."""
    if orientation.is_transposed:
        image = image.swapaxes(-1, -2)
    sides = [
        side
        for side, is_flipped in (
            (-1, orientation.is_flipped_horizontally),
            (-2, orientation.is_flipped_vertically),
        )
        if is_flipped
    ]
    return image.flip(sides) if sides else image
