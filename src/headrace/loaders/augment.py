"""FrameViews: views of frames and their geometry; ClipAugment: their random geometry."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from headrace.decode.frame_outputs import Pixels
from headrace.errors import ConfigError
from headrace.loaders.epochs import RankBatch
from headrace.loaders.video_set import VideoSet
from headrace.sampling.counter_rng import CounterRng, RngStream
from headrace.units import check_switches, is_number
from headrace.video.frame_format import FrameFormat


def flip_frame(frame: Pixels) -> Pixels:
    """Return a frame, uint8 [H, W, 3], flipped horizontally."""
    if isinstance(frame, torch.Tensor):
        return frame.flip(1)
    return frame[:, ::-1].copy()


def rotate_frame(frame: Pixels, degrees: float) -> Pixels:
    """Return a frame, uint8 [H, W, 3], rotated counter-clockwise about its center, bilinear.

    Uncovered pixels are black. Pillow rotates arrays. Tensors are rotated by Pillow's formulas,
    bit for bit the same on the CPU; on a GPU, rounding may differ by one grey level. Not yet run on
    a GPU.
    """
    if isinstance(frame, torch.Tensor):
        return _rotate_tensor(frame, degrees)
    image = Image.fromarray(np.ascontiguousarray(frame))
    return np.asarray(image.rotate(degrees, Image.Resampling.BILINEAR))


def _rotate_tensor(frame: torch.Tensor, degrees: float) -> torch.Tensor:
    """Rotate a tensor on its device as Pillow's Geometry.c does.

    A pixel is black if its source position is outside the frame. Between the outermost pixel
    centers and the border, the border pixel is repeated. Fractions are truncated.
    """
    height, width = frame.shape[:2]
    angle = math.radians(degrees % 360)
    cosine, sine = round(math.cos(angle), 15), round(math.sin(angle), 15)
    columns = torch.arange(width, dtype=torch.float64, device=frame.device) + 0.5
    rows = torch.arange(height, dtype=torch.float64, device=frame.device)[:, None] + 0.5
    # Source position of each pixel. float64, as in Pillow: rounding decides whether a border pixel
    # is black, and which level a truncated value has.
    x = cosine * columns - sine * rows + (-width / 2 * cosine + height / 2 * sine + width / 2)
    y = sine * columns + cosine * rows + (-width / 2 * sine - height / 2 * cosine + height / 2)
    is_inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    left, right, x_weight = _neighbours(x, width)
    top, bottom, y_weight = _neighbours(y, height)
    upper = _interpolate(frame[top, left], frame[top, right], x_weight)
    lower = _interpolate(frame[bottom, left], frame[bottom, right], x_weight)
    return (_interpolate(upper, lower, y_weight) * is_inside[..., None]).to(torch.uint8)


def _neighbours(
    position: torch.Tensor, side: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the pixels before and after a position, and the weight of the second."""
    first = (position - 0.5).floor()
    weight = (position - 0.5 - first)[..., None]
    before, after = (pixel.clamp(0, side - 1).to(torch.int64) for pixel in (first, first + 1))
    return before, after, weight


def _interpolate(before: torch.Tensor, after: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    start = before.to(torch.float64)
    return start + (after - start) * weight


@dataclass(frozen=True, kw_only=True)
class AugmentParams:
    """Parameters drawn for one camera, for one pass of a clip or one window."""

    scale: float = 1.0
    across: float | None = None
    """Horizontal position of the crop in [0, 1), from left to right; None: the view's."""
    is_flipped: bool = False
    degrees: float = 0.0
    """Counter-clockwise, about the center."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameGeometry:
    """Geometry of a camera's frames: resize and crop while decoding, then flip, then rotation."""

    shape: FrameFormat
    """Output of the decoder."""
    params: AugmentParams
    """Flip and rotation; its scale and crop are part of `shape`."""
    matrix: NDArray[np.float64]
    """float64 [3, 3]: maps a pixel (x, y, 1) of the upright original to a pixel of the result.
    Integers are pixel centers."""

    @classmethod
    def of(cls, shape: FrameFormat, upright: tuple[int, int], params: AugmentParams) -> Self:
        """Return the geometry for frames of an upright (height, width)."""
        fitting = shape.fitting(upright)
        (height, width), (top, left) = fitting.size, fitting.offset
        down, right = (scaled / side for scaled, side in zip(fitting.scaled, upright, strict=True))
        matrix = np.array([[right, 0.0, left], [0.0, down, top], [0.0, 0.0, 1.0]])
        if params.is_flipped:
            matrix = np.array([[-1.0, 0.0, width], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) @ matrix
        if params.degrees:
            matrix = _rotation_matrix(params.degrees, width / 2, height / 2) @ matrix
        # Integers are pixel edges in `matrix`, and pixel centers in the result.
        return cls(shape=shape, params=params, matrix=_shift(-0.5) @ matrix @ _shift(0.5))

    def finish(self, frame: Pixels) -> None:
        """Flip and rotate a decoded frame, uint8 [H, W, 3], in place."""
        if self.params.is_flipped:
            frame[...] = flip_frame(frame)
        if self.params.degrees:
            frame[...] = rotate_frame(frame, self.params.degrees)


def _rotation_matrix(degrees: float, x: float, y: float) -> NDArray[np.float64]:
    """Return a rotation about (x, y), counter-clockwise on the screen, where y points down."""
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array(
        [
            [cosine, sine, x - cosine * x - sine * y],
            [-sine, cosine, y + sine * x - cosine * y],
            [0.0, 0.0, 1.0],
        ]
    )


def _shift(offset: float) -> NDArray[np.float64]:
    return np.array([[1.0, 0.0, offset], [0.0, 1.0, offset], [0.0, 0.0, 1.0]])


_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameViews:
    """Views of the frames of a video set, by view id: frame id + view number × number of frames.

    In this class each frame has one view, in the format of all frames. A subclass has views by
    video and by sample. Shared by all threads.
    """

    videos: VideoSet

    @property
    def is_by_sample(self) -> bool:
        """Whether each sample has its own views, so that few samples share one."""
        return False

    @property
    def is_augmented(self) -> bool:
        """Whether a frame may have several views."""
        return False

    def numbers(self, epoch: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the view number of each sample, int64 [N], >= 0."""
        return np.zeros(len(slots), np.int64)

    def geometry(self, video: int, number: int) -> FrameGeometry | None:
        """Return the geometry of a video's frames with a view number; None: the format's."""
        return None

    def ids(self, step: RankBatch, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the view ids of the `frames`, int64 [N] or [N, T], of a step's samples.

        Raises:
            ConfigError: view ids exceed int64.
        """
        if not frames.size:
            return frames
        numbers = self.numbers(step.epoch, step.slots)
        if int(numbers.max()) >= _LARGEST_ID // self.num_frames:
            raise ConfigError(
                f"frame views of epoch {step.epoch} with {self.num_frames} frames cannot be "
                "numbered in 64 bits; use a lower epoch"
            )
        return frames + (numbers * self.num_frames).reshape(-1, *[1] * (frames.ndim - 1))

    def frames(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame ids of views."""
        return ids % self.num_frames

    def gop_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the id of the GOP that each view is decoded from."""
        return self.videos.decoded_population.gop_of(self.frames(ids))

    @property
    def num_frames(self) -> int:
        """Number of frames of the videos."""
        return self.videos.population.num_frames


@dataclass(frozen=True, kw_only=True)
class ClipAugment:
    """Random geometry of a clip's frames, applied in the order of the fields.

        ClipAugment(scale=(0.94, 1.1), flip=0.5, rotate_degrees=(-5.4, 5.4))

    The geometry is drawn once per pass of a clip, from the loader's seed, the epoch and the clip,
    and applies to all its moments. For windows it is drawn once per window, from seed, epoch and
    the window's position in the epoch. It does not depend on workers, ranks or resuming.
    `batch.image_matrix` holds the result. Output sizes do not change: pixels that scale or rotation
    leave uncovered are black.

    Raises:
        ConfigError: a range or the probability is invalid.
    """

    scale: tuple[float, float] = (1.0, 1.0)
    """Min and max resize factor before the crop, on top of the view's resize; from 0.1 to 10."""
    slides: bool = False
    """Whether the horizontal position of the crop is random."""
    flip: float = 0.0
    """Probability of a horizontal flip, after the crop."""
    rotate_degrees: tuple[float, float] = (0.0, 0.0)
    """Min and max angle, counter-clockwise, about the center of the crop, after the flip.
    Bilinear; about 4 ms per 256x704 frame."""
    alike: bool = True
    """Whether all cameras of a clip share one draw."""

    def __post_init__(self) -> None:
        check_switches(slides=self.slides, alike=self.alike)
        for name, lowest, highest in (("scale", 0.1, 10.0), ("rotate_degrees", -360.0, 360.0)):
            bounds = getattr(self, name)
            _check_range(name, bounds, lowest, highest)
            object.__setattr__(self, name, tuple(bounds))  # a list has no hash
        if not (is_number(self.flip) and 0 <= self.flip <= 1):
            raise ConfigError(f"flip must be a probability from 0 to 1, got {self.flip!r}")

    @property
    def only_flips(self) -> bool:
        """Whether draws differ only in the flip."""
        is_fixed = all(low == high for low, high in (self.scale, self.rotate_degrees))
        return is_fixed and not self.slides

    def fixed(self, *, is_flipped: bool) -> AugmentParams:
        """Return the parameters with or without the flip; valid if `only_flips`."""
        scale, degrees = float(self.scale[0]), float(self.rotate_degrees[0])
        return AugmentParams(scale=scale, is_flipped=is_flipped, degrees=degrees)

    def draw(self, *, seed: int, epoch: int, of: int, camera: int) -> AugmentParams:
        """Return the parameters of a camera for one pass of a clip or one window; about 60 µs.

        Args:
            seed: Seed of the loader.
            epoch: Epoch whose order the clip belongs to.
            of: Position of the clip in the layout, or of the window in the epoch.
            camera: Position of the camera in a batch.
        """
        return _draw(self, seed, epoch, of, 0 if self.alike else camera)


_MAX_CAMERAS = 1 << 16
_NUMBERS_PER_CAMERA = 8
"""Random numbers reserved per camera; four are used."""


@lru_cache(maxsize=4096)
def _draw(augment: ClipAugment, seed: int, epoch: int, position: int, camera: int) -> AugmentParams:
    draws = CounterRng(seed=seed, epoch=epoch, purpose=RngStream.AUGMENT)
    first = (position * _MAX_CAMERAS + camera) * _NUMBERS_PER_CAMERA
    scale, across, flip, rotation = draws.fractions(first + np.arange(4)).tolist()
    return AugmentParams(
        scale=_lerp(augment.scale, scale),
        across=across if augment.slides else None,
        is_flipped=flip < augment.flip,
        degrees=_lerp(augment.rotate_degrees, rotation),
    )


def _lerp(bounds: tuple[float, float], fraction: float) -> float:
    low, high = bounds
    return float(low + (high - low) * fraction)


def _check_range(name: str, bounds: object, lowest: float, highest: float) -> None:
    if isinstance(bounds, tuple | list) and len(bounds) == 2 and all(map(is_number, bounds)):
        low, high = bounds
        if lowest <= low <= high <= highest:
            return
    raise ConfigError(
        f"{name} must be (lowest, highest), numbers from {lowest:g} to {highest:g}, got {bounds!r}"
    )
