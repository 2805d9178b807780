"""CameraView and CameraViews: resize, crop and augmentation of camera frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError
from headrace.loaders.augment import AugmentParams, ClipAugment, FrameGeometry
from headrace.loaders.cameras.camera_batch import SlotCell
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.units import one_of
from headrace.video.frame_format import Crop, Fit, FrameFormat, Interpolation, Layout, ResizeFit
from headrace.video.timebase import exact_number

Anchor = Literal["center", "bottom", "top"]
"""Vertical position of a crop given by its size; horizontally it is centered."""

_MAX_SIDE = 1 << 14
"""Max pixels of a resized frame's longer side."""


@dataclass(frozen=True, kw_only=True)
class CameraView:
    """Resize and crop of a camera's frames: the full frame is resized, then cropped.

        CameraView(resize=0.44, crop=(256, 704), anchor="bottom")

    resizes 900x1600 to 396x704 and keeps the lower 256 rows, as StreamPETR and BEVDet do. The crop
    has the pixels of the full resized frame, and costs as much.

    Raises:
        ConfigError: resize, crop or anchor is invalid.
    """

    resize: float | tuple[int | None, int | None] | None = None
    """A factor, exact as written (0.44 is 11/25), or (height, width), one of which may be None to
    keep the aspect ratio. Sides are rounded down. None: no resize."""
    crop: Crop | tuple[int, int] | None = None
    """A `Crop` of the resized frame, or a (height, width) placed by `anchor`; None: no crop."""
    anchor: Anchor = "center"
    """Vertical position of a crop given by its size; horizontally it is centered."""

    def __post_init__(self) -> None:
        self._check_resize()
        one_of(Anchor, anchor=self.anchor)
        if isinstance(self.crop, Crop) or self.crop is None:
            if self.anchor != "center":
                raise ConfigError(
                    f"anchor={self.anchor!r} needs crop=(height, width), got crop={self.crop}"
                )
        elif not (_is_pair(self.crop) and all(_is_side(side) for side in self.crop)):
            raise ConfigError(
                "crop must be a Crop(top=, left=, height=, width=) or (height, width), both "
                f"integers >= 1, got {self.crop!r}"
            )

    def _check_resize(self) -> None:
        if isinstance(self.resize, tuple | list):
            sides = [side for side in self.resize if side is not None]
            if not _is_pair(self.resize) or not sides or not all(map(_is_side, sides)):
                raise ConfigError(
                    "resize must be a factor or (height, width), integers >= 1 of which one may "
                    f"be None, got {self.resize!r}"
                )
        elif self.resize is not None and exact_number("resize", self.resize) <= 0:
            raise ConfigError(f"resize must be above 0, got {self.resize!r}")

    def resized(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) of a frame after the resize.

        Args:
            upright: (height, width) of the upright frame.

        Raises:
            ConfigError: a side is not from 1 to 16384.
        """
        height, width = self._resized(upright)
        if not all(1 <= side <= _MAX_SIDE for side in (height, width)):
            raise ConfigError(
                f"resize={self.resize} of a frame of {upright[0]}x{upright[1]} (height x width) "
                f"is {height}x{width}; sides must be from 1 to {_MAX_SIDE}"
            )
        return height, width

    def _resized(self, upright: tuple[int, int]) -> tuple[int, int]:
        upright_height, upright_width = upright
        if self.resize is None:
            return upright
        if not isinstance(self.resize, tuple | list):
            factor = exact_number("resize", self.resize)
            return int(upright_height * factor), int(upright_width * factor)
        height, width = self.resize
        if height is None:
            assert width is not None
            return int(Fraction(upright_height * width, upright_width)), int(width)
        if width is None:
            return int(height), int(Fraction(upright_width * height, upright_height))
        return int(height), int(width)

    def size(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return the output (height, width) of a frame.

        Args:
            upright: (height, width) of the upright frame.

        Raises:
            ConfigError: the crop is not inside the resized frame.
        """
        height, width = self.resized(upright)
        if self.crop is None:
            return height, width
        if isinstance(self.crop, Crop):
            top, left = self.crop.top, self.crop.left
            crop_height, crop_width = self.crop.height, self.crop.width
        else:
            top, left = 0, 0
            crop_height, crop_width = map(int, self.crop)
        if top + crop_height > height or left + crop_width > width:
            corner = f" at {top}, {left}" if top or left else ""
            raise ConfigError(
                f"a crop of {crop_height}x{crop_width}{corner} is not inside a frame of "
                f"{upright[0]}x{upright[1]} resized to {height}x{width} (height x width); choose a "
                "larger resize or a smaller crop"
            )
        return crop_height, crop_width

    def fitting(
        self, upright: tuple[int, int], *, scale: float = 1.0, across: float | None = None
    ) -> ResizeFit:
        """Return the position of the resized frame in the output.

        Args:
            upright: (height, width) of the upright frame.
            scale: Further resize factor; uncovered pixels are black.
            across: Horizontal position of the crop in [0, 1), from left to right; None: by `crop`
                and `anchor`.
        """
        size, full = self.size(upright), self.resized(upright)
        height, width = (max(1, int(side * scale)) for side in full) if scale != 1.0 else full
        top, left = round((height - size[0]) / 2), round((width - size[1]) / 2)
        if isinstance(self.crop, Crop):
            crop = self.crop
            top = round((crop.top + crop.height / 2) * height / full[0] - crop.height / 2)
            left = round((crop.left + crop.width / 2) * width / full[1] - crop.width / 2)
        elif self.anchor != "center":
            top = height - size[0] if self.anchor == "bottom" else 0
        if across is not None and width > size[1]:
            left = int(across * (width - size[1] + 1))
        return ResizeFit(size=size, scaled=(height, width), offset=(-top, -left))


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _is_side(side: object) -> bool:
    return not isinstance(side, bool) and isinstance(side, Integral) and int(side) >= 1


_MAX_GEOMETRIES = 4096
"""Max geometries cached by `CameraViews`, about 500 bytes each."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraViews:
    """Views and augmentation of a camera set: a `FrameGeometry` per camera and draw.

    Thread-safe: its cache only holds results of pure functions.
    """

    cameras: CameraSet
    plain: FrameFormat
    """Format of frames without a view."""
    views: tuple[CameraView, ...] | None
    """One per camera; None: no views."""
    augment: ClipAugment | None
    _geometries: dict[tuple[int, int, AugmentParams], FrameGeometry] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        cameras: CameraSet,
        *,
        size: tuple[int, int] | None,
        fit: Fit,
        interpolation: Interpolation,
        view: CameraView | Mapping[str, CameraView] | None,
        augment: ClipAugment | None,
        layout: Layout = "rgb",
    ) -> "CameraViews":
        """Return the views of a set; frames without a view are decoded to `layout`.

        Raises:
            ConfigError: `view` names other cameras, or a crop is not inside a frame; names the
                file.
        """
        views = cls(
            cameras=cameras,
            plain=FrameFormat(
                size=tuple(size) if isinstance(size, list) else size,  # YAML has lists
                fit=fit,
                interpolation=interpolation,
                layout=layout,
            ),
            views=None if view is None else _view_per_camera(view, cameras.cameras),
            augment=augment,
        )
        assert views.sizes
        return views

    @cached_property
    def sizes(self) -> frozenset[tuple[int, int]]:
        """All output (height, width).

        Raises:
            ConfigError: a crop is not inside a frame; names the file.
        """
        sizes = set[tuple[int, int]]()
        for clip, aligned in enumerate(self.cameras.clips):
            for camera, index in enumerate(aligned.indexes):
                try:
                    sizes.add(self.size(clip, camera))
                except ConfigError as error:
                    raise ConfigError(f"{index.source}: {error}") from error
        return frozenset(sizes)

    def size(self, clip: int, camera: int) -> tuple[int, int]:
        """Return the output (height, width) of a camera of a clip."""
        upright = self.cameras.clips[clip].indexes[camera].info.upright_size
        if self.views is None:
            return self.plain.output_size(upright)
        return self.views[camera].size(upright)

    @property
    def max_size(self) -> tuple[int, int]:
        """Max output height, and max output width."""
        height, width = np.max([*self.sizes], axis=0).tolist()
        return height, width

    def common_size(self, fix: str = ", or choose ragged='pad' or 'list'") -> tuple[int, int]:
        """Return the output (height, width) of all cameras.

        Args:
            fix: End of the error message.

        Raises:
            ConfigError: they differ.
        """
        if len(self.sizes) > 1 and self.views is None:
            return self.cameras.common_size()
        if len(self.sizes) > 1:
            sizes = ", ".join(f"{height}x{width}" for height, width in sorted(self.sizes))
            raise ConfigError(
                f"frames of a batch must have one size, but views make {sizes} (height x width); "
                f"crop all cameras to one size{fix}"
            )
        return self.max_size

    def geometry(
        self, clip: int, camera: int, params: AugmentParams | None = None
    ) -> FrameGeometry:
        """Return the geometry of a camera of a clip; `params` None: without augmentation."""
        key = clip, camera, params or AugmentParams()
        geometry = self._geometries.get(key)
        if geometry is None:
            if len(self._geometries) >= _MAX_GEOMETRIES:
                self._geometries.clear()
            geometry = self._geometries[key] = self._make_geometry(*key)
        return geometry

    def _make_geometry(self, clip: int, camera: int, params: AugmentParams) -> FrameGeometry:
        upright = self.cameras.clips[clip].indexes[camera].info.upright_size
        shape = self.plain
        if self.views is not None or params.scale != 1.0:
            view = CameraView(resize=shape.size) if self.views is None else self.views[camera]
            fitting = view.fitting(upright, scale=params.scale, across=params.across)
            shape = FrameFormat(size=fitting.size, fit=fitting, interpolation=shape.interpolation)
        return FrameGeometry.of(shape, upright, params)

    def slot_geometry(self, cell: SlotCell, camera: int) -> FrameGeometry:
        """Return the geometry of a camera for the clip and pass of a slot."""
        if self.augment is None:
            return self.geometry(cell.clip, camera)
        number = self.cameras.clips[cell.clip].number
        params = self.augment.draw(seed=cell.seed, epoch=cell.epoch, of=number, camera=camera)
        return self.geometry(cell.clip, camera, params)

    def matrices(self, cells: Sequence[SlotCell]) -> NDArray[np.float64]:
        """Return `CameraBatch.image_matrix` of N cells, float64 [N, C, 3, 3]."""
        cameras = range(len(self.cameras.cameras))
        return np.array(
            [
                [
                    self.slot_geometry(cell, camera).matrix if cell.clip >= 0 else np.eye(3)
                    for camera in cameras
                ]
                for cell in cells
            ]
        )


_FIT_AS_VIEW = {
    "stretch": ": CameraView(resize=(height, width)) does the same as size=",
    "cover": ": CameraView(resize=(None, width), crop=(height, width)) crops the excess",
    "contain": ", or leave out view=: no view adds black borders",
}
"""Fit → advice about the equivalent view."""


def check_views(view: object, augment: object, *, size: object, fit: object) -> None:
    """Check a view and an augmentation, together with `size` and `fit`.

    Raises:
        ConfigError: one has the wrong type, or contradicts another.
    """
    views = [*view.values()] if isinstance(view, Mapping) else [view]
    if view is not None:
        if not views or not all(isinstance(value, CameraView) for value in views):
            raise ConfigError(
                "view must be a CameraView, such as CameraView(resize=0.44, crop=(256, 704)), or a "
                f"dict with one for each camera, got {view!r}"
            )
        _check_only_view(size, fit)
    if augment is None:
        return
    if not isinstance(augment, ClipAugment):
        raise ConfigError(
            f"augment must be a ClipAugment, such as ClipAugment(flip=0.5), got {augment!r}"
        )
    if (augment.scale != (1.0, 1.0) or augment.slides) and fit != "stretch":
        raise ConfigError(
            f"augment scales or slides a crop, got fit={fit!r}; give the crop by "
            "view=CameraView(resize=..., crop=...)"
        )


def _check_only_view(size: object, fit: object) -> None:
    """Raise ConfigError if a size or a fit is given in addition to a view."""
    given = [f"size={size}"] if size is not None else []
    if fit != "stretch":
        given.append(f"fit={fit!r}")
    if given:
        pronoun = "it" if len(given) == 1 else "them"
        raise ConfigError(
            f"view= excludes {' and '.join(given)}; leave {pronoun} out"
            f"{_FIT_AS_VIEW.get(str(fit), '')}"
        )


def _view_per_camera(
    view: CameraView | Mapping[str, CameraView], cameras: tuple[str, ...]
) -> tuple[CameraView, ...]:
    if isinstance(view, CameraView):
        return (view,) * len(cameras)
    if set(view) != set(cameras):
        raise ConfigError(
            f"view must have a CameraView for each of {', '.join(cameras)}, got one for "
            f"{', '.join(map(str, view))}"
        )
    return tuple(view[camera] for camera in cameras)
