"""CameraOptions and CameraWindowOptions: arguments of the camera loaders."""

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from headrace.decode.protocol import check_on_error
from headrace.errors import ConfigError
from headrace.loaders.augment import ClipAugment
from headrace.loaders.cameras.camera_alignment import Alignment
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.camera_view import CameraView, check_views
from headrace.loaders.cameras.moment_table import MetadataOf, check_metadata
from headrace.loaders.loader_options import LoaderOptions, OnBad, PlannedOptions
from headrace.sampling.clip_shape import MOST_FRAMES
from headrace.sampling.moments import Moments
from headrace.sampling.sampler import Sampler, Shard
from headrace.sampling.slots import Tail
from headrace.units import check_counts, check_integers, check_numbers, one_of, parse_bytes
from headrace.video.camera_layout import CameraLayout
from headrace.video.frame_format import Fit, Interpolation

Ragged = Literal["pad", "list"]
"""Format of batches with frames of different sizes: one tensor, padded with black on the right and
at the bottom, or a list of tensors per slot."""

OnLost = Literal["raise", "mask"]
"""Policy for a damaged frame: an error, or a black frame that is marked and counted."""

_MAX_AHEAD = 32
"""Max batches decoded ahead by default."""


@dataclass(frozen=True, kw_only=True)
class CameraOptions(LoaderOptions):
    """Arguments of a `CameraLoader`.

    Args:
        layout: The clips; or the path of an index file `{video_dir: {clip: frame_count}}`.
        group_num: Clips in a batch of this rank; each has a slot.
        cameras: Names of the cameras to read from an index file, in the order of a batch; None:
            all, by name.
        size: (height, width) of the frames; None: the size of the cameras, which must be equal.
        fit: Rule for a `size` with another aspect ratio: `stretch`, `cover` (crop the excess) or
            `contain` (the full frame with black borders).
        interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
        view: In place of `size`: a `CameraView`, or a dict with one for each camera.
        augment: Random geometry of a clip's frames: a `ClipAugment`, drawn once per pass of a clip.
            `batch.image_matrix` holds the result of views and augmentation.
        ragged: Format of batches whose frames differ in size: `pad` or `list`; None: an error.
        alignment: Assignment of frames to moments; None: frames of the same index.
        metadata: Metadata of each moment, for `batch.metadata`: a function of the clip's name and
            a `ClipMoment` that returns a mapping, or a `MomentTable`. Called in the iterating
            thread.
        moments: Moments of each clip to deliver; None: all.
        tail: Rule for the end of an epoch, when slots run out of clips: `pad` leaves slots empty;
            `drop` ends the epoch at the first empty slot; `refill` reads clips again; `endless`
            continues with clips of the next epoch, and the loader has no length.
        seq_split: Number of parts that each clip is cut into; each part is a sequence with its own
            `first_frame`.
        shuffle: Whether clips are read in a new random order in each epoch.
        seed: Seed of the order, of `augment` and of `transform`.
        lookahead: Frames per camera that are decoded ahead; None: as many as the budget allows, at
            most 32.
        memory_budget: Bytes, as a number or like "1GiB", for the batches decoded ahead and two
            more; GPU memory if frames stay there. Codecs come on top: about 17 MB per open file at
            1600x900.
        num_of_file: Max open files, at least one more than there are threads; None: all files being
            read, up to half the system's limit. With too few, decoders seek back to a keyframe for
            each job, which is counted.
        transform: Function of the frames of each sample, [C, 3, H, W], on their device; with
            ragged="list", of each frame. Its random numbers depend on seed, epoch and clip, so all
            moments of a clip are transformed alike.
        on_error: Policy for bad media. With `mask`, a clip that cannot be opened is skipped (or one
            camera is masked, if the alignment masks missing frames), and a frame that cannot be
            decoded is black, marked in `valid` and counted. Ranks of torch.distributed then compare
            their opened clips, so every rank must create its loader.
    """

    layout: CameraLayout | str | os.PathLike[str] = field(kw_only=False)
    group_num: int = 4
    cameras: Iterable[str] | None = None
    size: tuple[int, int] | None = None
    fit: Fit = "stretch"
    interpolation: Interpolation = "area"
    view: CameraView | Mapping[str, CameraView] | None = None
    augment: ClipAugment | None = None
    ragged: Ragged | None = None
    alignment: Alignment | None = None
    metadata: MetadataOf | None = None
    moments: Moments | None = None
    tail: Tail = "pad"
    seq_split: int = 1
    shuffle: bool = False
    seed: int = 0
    num_of_file: int | None = None
    on_error: OnLost = "raise"

    def check(self) -> None:
        """Check all arguments.

        Raises:
            BackendError: the backend or the GPU is not available.
            ConfigError: an argument has the wrong type, or is out of range.
        """
        super().check()
        check_integers(
            1,
            group_num=self.group_num,
            lookahead=self.lookahead,
            num_of_file=self.num_of_file,
        )
        check_on_error(self.on_error, get_args(OnLost))
        check_metadata(self.metadata)
        check_views(self.view, self.augment, size=self.size, fit=self.fit)
        one_of((*get_args(Ragged), None), ragged=self.ragged)

    def batches_ahead(self, batch_bytes: int) -> int:
        """Return the number of batches in flight, besides the two of the caller.

        Raises:
            ConfigError: the budget does not hold three batches, or `lookahead` and two.
        """
        budget, lookahead = parse_bytes(self.memory_budget), self.lookahead
        fit = budget // batch_bytes - 2
        if fit < 1 or (lookahead is not None and lookahead > fit):
            needed = (2 + (lookahead or 1)) * batch_bytes / 2**20
            raise ConfigError(
                f"a memory budget of {budget / 2**20:,.1f} MiB does not hold "
                f"{2 + (lookahead or 1)} batches of {batch_bytes / 2**20:,.1f} MiB (the caller's, "
                f"the next one, and the lookahead), which need {needed:,.1f} MiB; raise it, or "
                "choose a smaller group_num, size or lookahead"
            )
        return min(fit, _MAX_AHEAD) if lookahead is None else lookahead


def layout_for(
    layout: CameraLayout | str | os.PathLike[str], cameras: Iterable[str] | None
) -> CameraLayout:
    """Return the layout, read from its index file if a path is given.

    Raises:
        ConfigError: the value has another type, the file cannot be read, or `cameras` is given
            with a CameraLayout, which has its own cameras.
    """
    if isinstance(layout, str | os.PathLike):
        return CameraLayout.read(layout, cameras)
    if not isinstance(layout, CameraLayout):
        raise ConfigError(
            "layout must be a CameraLayout or the path of an index file, got "
            f"{type(layout).__name__}"
        )
    if cameras is not None:
        raise ConfigError(
            "cameras= selects from an index file, but layout is a CameraLayout with its own "
            "cameras; use dataclasses.replace(layout, cameras=...)"
        )
    return layout


Boundary = Literal["pad", "skip"]
"""Rule for windows that reach beyond their clip: `pad` replaces each missing moment by the nearest,
marked in `is_pad`; `skip` skips the window."""

ClipWeights = Mapping[str, float | Sequence[float]]
"""Clip name → one weight for all its key moments, or one per moment of the clip, in order; moments
that are not delivered have one too."""

ClipLabels = Mapping[str, Collection[str] | Sequence[Collection[str]]]
"""Clip name → the classes of all its moments, `["car", "bus"]`, or a list per moment of the clip,
`[["car"], [], ["car", "bus"]]`; moments that are not delivered have one too."""

_NUM_MOMENTS = 8
"""Default moments of a window."""


@dataclass(frozen=True, kw_only=True)
class CameraWindowOptions(PlannedOptions):
    """Arguments of a `CameraWindowLoader`.

    Args:
        layout: The clips; or the path of an index file `{video_dir: {clip: frame_count}}`.
        num_moments: Moments of a window; the last is its key moment. None: 8.
        stride: Distance of consecutive moments of a window, in delivered moments; None: 1.
        delta_seconds: In place of `num_moments` and `stride`: times of a window's moments relative
            to its key moment, in seconds; negative: before it. `(-1.0, -0.5, 0.0)`.
        tolerance_ms: Max distance of a moment from a time of `delta_seconds`, in milliseconds;
            beyond it the nearest moment is a replacement, marked in `is_pad`.
        moments: Moments that windows are made of, such as `Moments.rate(2.0)`; None: all.
        keys: Key moments among them, one per window; None: all.
        boundary: Rule for windows that reach beyond their clip: `pad` replaces a missing moment by
            the nearest, marked in `is_pad`; `skip` skips the window.
        batch_size: Windows in a batch of this rank.
        size: (height, width) of the frames; None: the size of the cameras, which must be equal.
        view: In place of `size`: a `CameraView`, or a dict with one for each camera.
        augment: Random geometry of a window's frames: a `ClipAugment`, drawn once per window, the
            same for all its moments, from seed, epoch and the window's position in the epoch.
            `batch.image_matrix` holds the result of views and augmentation.
        metadata: Metadata of each moment, for `batch.metadata`: a function of the clip's name and
            a `ClipMoment` that returns a mapping, or a `MomentTable`. Called for each moment of
            each window, in the iterating thread.
        sampling: Choice and order of windows: a sampler of single frames. A key moment is a frame,
            and a clip is a video named by its folder. None: `ShuffledFrames()`.
        weights: In place of `sampling`: weights by clip name, one for the clip or one per moment,
            `{"clip_00": 2.0, "clip_01": [0, 1, ...]}`. An epoch has as many slots as windows; each
            window gets its share of them, rounded up or down.
        class_balance: In place of `sampling`: class names by clip name, one list for the clip or
            one per moment. Classes are equally frequent, as with CBGS.
        cameras: Names of the cameras to read from an index file, in the order of a batch; None:
            all, by name.
        alignment: Assignment of frames to moments; None: frames of the same index.
        seed: Seed of the order; None: the sampler's, which is 0 by default. If the sampler has a
            seed above 0, both must be equal.
        on_error: Policy for bad media. With `skip`, a clip with a camera that cannot be opened is
            skipped (or the camera is masked, if the alignment masks missing frames), and a window
            with a frame that cannot be decoded is replaced by another draw, which does not depend
            on timing. With `conceal`, a damaged frame is delivered as FFmpeg conceals it, and
            marked in `is_concealed`. With `mask`, a frame that cannot be decoded is black, marked
            in `valid`, counted in `frames_lost` and listed in `quarantined`; the rest of its window
            is delivered. With any of these, ranks of torch.distributed compare their skipped clips,
            so every rank must open its loader.
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
        """Check all arguments.

        Raises:
            BackendError: the backend or the GPU is not available.
            ConfigError: an argument has the wrong type, or is out of range.
        """
        self._check_views()  # first: super().check() would require a size for the fit
        super().check()
        check_counts(1, MOST_FRAMES, num_moments=self.window_moments, stride=self.moment_stride)
        for name in ("moments", "keys"):
            value = getattr(self, name)
            if not isinstance(value, Moments | None):
                raise ConfigError(
                    f"{name} must be Moments, such as Moments.rate(2.0), got {value!r}"
                )
        one_of(Boundary, boundary=self.boundary)
        check_numbers(0, tolerance_ms=self.tolerance_ms)
        check_metadata(self.metadata)
        samplings = ("sampling", "weights", "class_balance")
        given = [name for name in samplings if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)} exclude each other; give only one")
        if self.delta_seconds is not None:
            self._check_deltas(self.delta_seconds)

    @property
    def window_moments(self) -> int:
        """Moments of a window, without `delta_seconds`."""
        return _NUM_MOMENTS if self.num_moments is None else self.num_moments

    @property
    def moment_stride(self) -> int:
        """Distance of consecutive moments, without `delta_seconds`."""
        return 1 if self.stride is None else self.stride

    @property
    def has_views(self) -> bool:
        """Whether frames of cameras, or of windows, may differ in geometry."""
        return self.view is not None or self.augment is not None

    def _check_views(self) -> None:
        check_views(self.view, self.augment, size=self.size, fit=self.fit)
        given = "view" if self.augment is None else "augment"
        for name, value, default in (
            ("hold", self.held_layout, "rgb"),
            ("dtype", self.dtype, "uint8"),
        ):
            if self.has_views and value != default:
                raise ConfigError(
                    f"{given} requires {name}={default!r}, got {getattr(self, name)!r}; leave out "
                    f"{given} or {name}"
                )

    def _check_deltas(self, deltas: Sequence[float]) -> None:
        if self.num_moments is not None or self.stride is not None:
            raise ConfigError("delta_seconds replaces num_moments and stride; leave both out")
        try:
            is_valid = 0 < len(deltas) <= MOST_FRAMES and all(map(math.isfinite, deltas))
        except TypeError:
            is_valid = False
        if not is_valid:
            raise ConfigError(
                f"delta_seconds must be times in seconds, such as (-1.0, -0.5, 0.0), got {deltas!r}"
            )


def open_cameras(options: CameraOptions | CameraWindowOptions, shard: Shard) -> CameraSet:
    """Return the clips of a loader; the ranks of `shard` open them together.

    Raises the errors of `layout_for` and `CameraSet.open`.
    """
    return CameraSet.open(
        layout_for(options.layout, options.cameras),
        options.alignment,
        moments=options.moments,
        skip_bad=options.skips_bad,
        index_store=options.index_store,
        rank=shard.rank,
        ranks=shard.ranks,
    )
