"""What may be asked of a loader of camera windows."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from headrace.errors import ConfigError
from headrace.loaders.cameras.augment import ClipAugment
from headrace.loaders.cameras.camera_alignment import Alignment
from headrace.loaders.cameras.camera_view import CameraView, check_views
from headrace.loaders.cameras.moment_table import MetadataOf, check_metadata
from headrace.loaders.cameras.window_plan import WindowShape
from headrace.loaders.cameras.window_weights import ClipLabels, ClipWeights
from headrace.loaders.loader_options import OnBad, PlannedOptions
from headrace.sampling.clip_shape import MOST_FRAMES
from headrace.sampling.moments import Moments
from headrace.sampling.sampler import Sampler
from headrace.units import check_counts, check_integers
from headrace.video.camera_layout import CameraLayout

Boundary = Literal["pad", "skip"]
"""What happens to a window that reaches beyond its clip: the nearest moment stands in, marked in
`is_pad`; or there is no such window."""

_NUM_MOMENTS = 8


@dataclass(frozen=True, kw_only=True)
class CameraWindowOptions(PlannedOptions):
    """What may be asked of a `CameraWindowLoader`.

    Args:
        layout: The clips; or the path of an index file `{video_dir: {clip: frame_count}}`.
        num_moments: Moments of a window, the last of them its key moment; None: 8.
        stride: How many moments those of a window are apart, of those there are; None: 1,
            consecutive.
        delta_seconds: In place of both: when the moments of a window are, seconds after its key
            moment; below 0: before it. `(-1.0, -0.5, 0.0)`.
        tolerance_ms: How far a moment may be from what `delta_seconds` asks; beyond, the nearest
            stands in.
        moments: Which moments there are, such as `Moments.rate(2.0)`; windows are made of no
            others. None: all.
        keys: Which of them are key moments, each of which a window belongs to; None: all.
        boundary: What happens to windows that reach beyond their clip: `pad` or `skip`.
        batch_size: Windows in a batch of this rank.
        size: (height, width) of the frames; None keeps that of the cameras, if it is one.
        view: In place of `size`: a `CameraView`, or a dict of one for each camera.
        augment: What chance does to the pictures of a window: a `ClipAugment`, drawn once for each
            window from seed, epoch and its place in the epoch, for all its moments alike.
            `batch.image_matrix` says what views and chance did.
        metadata: What belongs to a moment besides its pictures, for `batch.metadata`: a function
            of the clip's name and a `ClipMoment` that returns a mapping, or a `MomentTable`. Called
            for each moment of each window, in the thread that takes batches.
        sampling: Which windows, in which order: a sampler of single frames, to which key moments
            are frames, and clips are videos, by their folders. None means `ShuffledFrames()`.
        weights: In place of `sampling`: how often windows come, by name of the clip: a weight, or
            one for each moment of it, `{"clip_00": 2.0, "clip_01": [0, 1, ...]}`. An epoch has as
            many slots as windows, and gives each as many as its share says, rounded up or down.
        class_balance: In place of `sampling`: names of classes by name of the clip, of the whole
            clip, or of each moment of it. Each class comes equally often, as by CBGS.
        cameras: Names of the cameras to read, in this order, of an index file; None: all, by name.
        alignment: Which frames belong together; None means those of the same index.
        seed: Another one gives other batches; None keeps that of the sampler, which is 0 by
            default. Beside a sampler with a seed of its own, above 0, it must be equal.
        on_error: What bad media does. With `skip`, a clip with a camera that cannot be opened is
            left out (or the camera is masked, if the alignment masks what is missing), and a
            window with a frame that cannot be decoded is replaced by another draw, by a rule that
            timing plays no part in. With `conceal`, a damaged frame is delivered as FFmpeg shows
            it, and marked in `is_concealed`. With `mask`, a frame that cannot be decoded comes
            black and marked in `valid`, and the rest of its window as it is; counted as
            `frames_lost`, and listed in `quarantined`. With any of them, ranks of
            torch.distributed compare what they left out, so each must open its loader.
    """

    _ON_ERROR: ClassVar[tuple[str, ...]] = get_args(OnBad)

    layout: CameraLayout | str | os.PathLike[str] = field(kw_only=False)
    num_moments: int | None = None
    stride: int | None = None
    delta_seconds: Sequence[float] | None = None
    tolerance_ms: float = 50.0
    moments: Moments | None = None
    keys: Moments | None = None
    boundary: Boundary = "pad"
    batch_size: int = 1
    size: tuple[int, int] | None = None
    view: CameraView | Mapping[str, CameraView] | None = None
    augment: ClipAugment | None = None
    metadata: MetadataOf | None = None
    sampling: Sampler | None = None
    weights: ClipWeights | None = None
    class_balance: ClipLabels | None = None
    cameras: Iterable[str] | None = None
    alignment: Alignment | None = None

    def check(self) -> None:
        """Refuse what is out of range, or no choice: ConfigError; a GPU that is not here."""
        self._check_views()  # before a fit without a size is told to need one, beside a view
        super().check()
        check_integers(1, num_moments=self.num_moments, stride=self.stride)
        check_counts(1, MOST_FRAMES, num_moments=self.num_moments or 1, stride=self.stride or 1)
        for name in ("moments", "keys"):
            value = getattr(self, name)
            if not isinstance(value, Moments | None):
                raise ConfigError(
                    f"{name} must be Moments, such as Moments.rate(2.0), got {value!r}"
                )
        if self.boundary not in get_args(Boundary):
            raise ConfigError(f"boundary must be pad or skip, got {self.boundary!r}")
        _check_tolerance(self.tolerance_ms)
        check_metadata(self.metadata)
        ways = {name: getattr(self, name) for name in ("sampling", "weights", "class_balance")}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} exclude each other; give one of them")
        if self.delta_seconds is not None:
            self._check_deltas(self.delta_seconds)

    @property
    def has_framings(self) -> bool:
        """Whether pictures of cameras, or of windows, are made in ways that may differ."""
        return self.view is not None or self.augment is not None

    def _check_views(self) -> None:
        check_views(self.view, self.augment, size=self.size, fit=self.fit)
        given = "view" if self.augment is None else "augment"
        for name, usual in {"hold": "rgb", "dtype": "uint8"}.items():
            if self.has_framings and getattr(self, name) != usual:
                raise ConfigError(
                    f"{given} makes pictures of {usual}, and {name}={getattr(self, name)!r} was "
                    "asked for; leave out one of the two"
                )

    def shape_of_windows(self) -> WindowShape:
        """Return which moments belong to a window; only after `check`."""
        deltas = self.delta_seconds
        return WindowShape(
            num_moments=(self.num_moments or _NUM_MOMENTS) if deltas is None else len(deltas),
            stride=self.stride or 1,
            delta_seconds=None if deltas is None else tuple(float(each) for each in deltas),
            tolerance_ms=self.tolerance_ms,
            skips=self.boundary == "skip",
            keys=self.keys,
        )

    def _check_deltas(self, deltas: Sequence[float]) -> None:
        if self.num_moments is not None or self.stride is not None:
            raise ConfigError("delta_seconds stands in place of num_moments and stride; leave them")
        try:
            is_right = 0 < len(deltas) <= MOST_FRAMES and all(map(math.isfinite, deltas))
        except TypeError:
            is_right = False
        if not is_right:
            raise ConfigError(
                f"delta_seconds must be times in seconds, such as (-1.0, -0.5, 0.0), got {deltas!r}"
            )


def _check_tolerance(tolerance_ms: object) -> None:
    if not isinstance(tolerance_ms, int | float) or not tolerance_ms >= 0:
        raise ConfigError(f"tolerance_ms must be a number >= 0, got {tolerance_ms!r}")
