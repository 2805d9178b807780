"""CameraViews: what becomes of every picture of a camera set, asked by clip and camera."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.loaders.cameras.augment import AugmentParams, ClipAugment, Framing
from headrace.loaders.cameras.camera_batch import SlotCell
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.units import one_of
from headrace.video.frame_format import Crop, Fit, FrameFormat, Interpolation, Layout, ResizeFit
from headrace.video.timebase import exact_number

Anchor = Literal["center", "bottom", "top"]
"""Where a crop lies that has only a size; from left to right always in the middle."""

_MOST_PIXELS = 1 << 14
"""Of a side of what a picture is resized to."""


@dataclass(frozen=True, kw_only=True)
class CameraView:
    """What becomes of a camera's picture: resized as a whole, then cropped.

        CameraView(resize=0.44, crop=(256, 704), anchor="bottom")

    makes 396x704 of 900x1600 and keeps the lower 256 rows, as StreamPETR and BEVDet do. Every pixel
    is that of the whole picture, resized and then cut, so a crop costs as much as the whole.

    Raises:
        ConfigError: there is no such resize, crop or anchor.
    """

    resize: float | tuple[int | None, int | None] | None = None
    """A factor, as it is written (0.44 is 11/25); or (height, width), where the side that is None
    follows from the aspect ratio. Sides are rounded down, as recipes do. None keeps the size."""
    crop: Crop | tuple[int, int] | None = None
    """A `Crop` of the resized picture, or the (height, width) of one that `anchor` places; None
    keeps all of it."""
    anchor: Anchor = "center"

    def __post_init__(self) -> None:
        self._check_resize()
        one_of(Anchor, anchor=self.anchor)
        if isinstance(self.crop, Crop) or self.crop is None:
            if self.anchor != "center":
                raise ConfigError(
                    f"anchor={self.anchor!r} places a crop of a size, got crop={self.crop}; give "
                    "crop=(height, width)"
                )
        elif not (_is_pair(self.crop) and all(_is_side(side) for side in self.crop)):
            raise ConfigError(
                "crop is a Crop(top=, left=, height=, width=), or (height, width), both integers "
                f">= 1, got {self.crop!r}"
            )

    def _check_resize(self) -> None:
        asked = self.resize
        if asked is None:
            return
        if isinstance(asked, tuple | list):
            sides = [side for side in asked if side is not None]
            if not _is_pair(asked) or not sides or not all(_is_side(side) for side in sides):
                raise ConfigError(
                    "resize is a factor, or (height, width), integers >= 1 of which one may be "
                    f"None, got {asked!r}"
                )
        elif exact_number("resize", asked) <= 0:
            raise ConfigError(f"resize must be above 0, got {asked!r}")

    def resized(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) that a picture of an upright (height, width) is resized to.

        Raises:
            ConfigError: a side is longer than 16384, or shorter than 1.
        """
        height, width = self._resized(upright)
        if not all(1 <= side <= _MOST_PIXELS for side in (height, width)):
            raise ConfigError(
                f"resize={self.resize} makes {height}x{width} (height x width) of a picture of "
                f"{upright[0]}x{upright[1]}; sides of 1 to {_MOST_PIXELS} are possible"
            )
        return height, width

    def _resized(self, upright: tuple[int, int]) -> tuple[int, int]:
        tall, wide = upright
        if self.resize is None:
            return upright
        if not isinstance(self.resize, tuple | list):
            factor = exact_number("resize", self.resize)
            return int(tall * factor), int(wide * factor)
        height, width = self.resize
        if height is None:
            assert width is not None
            return int(Fraction(tall * width, wide)), int(width)
        if width is None:
            return int(height), int(Fraction(wide * height, tall))
        return int(height), int(width)

    def size(self, upright: tuple[int, int]) -> tuple[int, int]:
        """Return the (height, width) that comes of a picture of an upright (height, width).

        Raises:
            ConfigError: the crop does not lie inside what the picture is resized to.
        """
        height, width = self.resized(upright)
        if self.crop is None:
            return height, width
        top, left, tall, wide = 0, 0, *self._cropped()
        if isinstance(self.crop, Crop):
            top, left = self.crop.top, self.crop.left
        if top + tall > height or left + wide > width:
            where = f" at {top}, {left}" if top or left else ""
            raise ConfigError(
                f"a crop of {tall}x{wide}{where} was asked of a picture of "
                f"{upright[0]}x{upright[1]}, resized to {height}x{width} (height x width); resize "
                "it to more, or crop less"
            )
        return tall, wide

    def fitting(
        self, upright: tuple[int, int], *, scale: float = 1.0, across: float | None = None
    ) -> ResizeFit:
        """Return where the resized picture lies in the result, whose size is that of `size`.

        Args:
            upright: (height, width) of the picture.
            scale: What it is resized by besides; what this lays open is black.
            across: In [0, 1): where the crop lies between the left and the right side of the
                picture; None: as `crop` and `anchor` have it.
        """
        size, whole = self.size(upright), self.resized(upright)
        height, width = (max(1, int(side * scale)) for side in whole) if scale != 1.0 else whole
        top, left = round((height - size[0]) / 2), round((width - size[1]) / 2)
        if isinstance(self.crop, Crop):
            crop = self.crop
            top = round((crop.top + crop.height / 2) * height / whole[0] - crop.height / 2)
            left = round((crop.left + crop.width / 2) * width / whole[1] - crop.width / 2)
        elif self.anchor != "center":
            top = height - size[0] if self.anchor == "bottom" else 0
        if across is not None and width > size[1]:
            left = int(across * (width - size[1] + 1))
        return ResizeFit(size=size, scaled=(height, width), offset=(-top, -left))

    def _cropped(self) -> tuple[int, int]:
        if isinstance(self.crop, Crop):
            return self.crop.height, self.crop.width
        assert self.crop is not None
        height, width = self.crop
        return int(height), int(width)


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _is_side(side: object) -> bool:
    return not isinstance(side, bool) and isinstance(side, Integral) and int(side) >= 1


_INSTEAD = {
    "stretch": ": CameraView(resize=(height, width)) is what size= does",
    "cover": ": CameraView(resize=(None, width), crop=(height, width)) cuts what reaches beyond",
    "contain": ", or view=: no view puts pictures on black",
}
"""What to give in place of a fit, beside a view."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraViews:
    """Views and chance together: a `Framing` for each camera and pass of a clip.

    Threads may share it: what it remembers is only what follows from what it is asked.
    """

    cameras: CameraSet
    plain: FrameFormat
    """What becomes of pictures, where there is no view."""
    views: tuple[CameraView, ...] | None
    """Of each camera."""
    augment: ClipAugment | None
    _made: dict[tuple[int, int], tuple[tuple[int, int], Framing]] = field(default_factory=dict)
    """(clip, camera) → the (seed, epoch) that it was framed for last, and how."""

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
        """Return what becomes of the pictures of `cameras`; without a view they wait in `layout`.

        Raises:
            ConfigError: views are of other cameras, or do not fit the pictures.
        """
        made = cls(
            cameras=cameras,
            plain=FrameFormat(
                size=tuple(size) if isinstance(size, list) else size,  # as YAML has it
                fit=fit,
                interpolation=interpolation,
                layout=layout,
            ),
            views=None if view is None else _of_each(view, cameras.cameras),
            augment=augment,
        )
        assert made.sizes
        return made

    @cached_property
    def sizes(self) -> frozenset[tuple[int, int]]:
        """Each (height, width) that comes out.

        Raises:
            ConfigError: a crop does not lie inside a picture; names its file.
        """
        return frozenset(self._sizes())

    def _sizes(self) -> Iterator[tuple[int, int]]:
        for place, clip in enumerate(self.cameras.clips):
            for camera, index in enumerate(clip.indexes):
                try:
                    yield self.size(place, camera)
                except ConfigError as error:
                    raise ConfigError(f"{index.source}: {error}") from error

    def size(self, clip: int, camera: int) -> tuple[int, int]:
        """Return the (height, width) of what a camera of a clip becomes."""
        upright = self.cameras.clips[clip].indexes[camera].info.upright_size
        if self.views is None:
            return self.plain.output_size(upright)
        return self.views[camera].size(upright)

    @property
    def widest(self) -> tuple[int, int]:
        """The (height, width) that holds each picture."""
        height, width = np.max([*self.sizes], axis=0).tolist()
        return height, width

    def common_size(self, instead: str = ", or choose ragged='pad' or 'list'") -> tuple[int, int]:
        """Return the (height, width) that all pictures come to have.

        Args:
            instead: What else can be done where they differ, in words.

        Raises:
            ConfigError: they differ.
        """
        if len(self.sizes) > 1 and self.views is None:
            return self.cameras.common_size()
        if len(self.sizes) > 1:
            found = ", ".join(f"{height}x{width}" for height, width in sorted(self.sizes))
            raise ConfigError(
                f"frames of one size are needed for one tensor, views make {found} (height x "
                f"width) of cameras; crop all to one size{instead}"
            )
        return self.widest

    def framing(self, cell: SlotCell, camera: int) -> Framing:
        """Return how a camera's pictures are framed in the pass that `cell` is of."""
        chance = (cell.seed, cell.epoch) if self.augment is not None else (0, 0)
        of, found = self._made.get((cell.clip, camera), (None, None))
        if found is None or of != chance:
            found = self.framed(cell.clip, camera, self._drawn(cell, camera))
            self._made[cell.clip, camera] = chance, found
        return found

    def framed(self, clip: int, camera: int, drawn: AugmentParams) -> Framing:
        """Return how pictures of a camera of a clip are framed, with what chance made of them."""
        upright = self.cameras.clips[clip].indexes[camera].info.upright_size
        shape = self.plain
        if self.views is not None or drawn.scale != 1.0:
            view = CameraView(resize=shape.size) if self.views is None else self.views[camera]
            fitting = view.fitting(upright, scale=drawn.scale, across=drawn.across)
            shape = FrameFormat(size=fitting.size, fit=fitting, interpolation=shape.interpolation)
        return Framing.of(shape, upright, is_flipped=drawn.is_flipped, degrees=drawn.degrees)

    def matrices(self, cells: Sequence[SlotCell]) -> NDArray[np.float64]:
        """Return float64 [N, C, 3, 3], as `CameraBatch.image_matrix` has them of N cells."""
        found = np.empty((len(cells), len(self.cameras.cameras), 3, 3))
        for place, cell in enumerate(cells):
            for camera in range(len(self.cameras.cameras)):
                is_there = cell.clip >= 0
                found[place, camera] = self.framing(cell, camera).matrix if is_there else np.eye(3)
        return found

    def _drawn(self, cell: SlotCell, camera: int) -> AugmentParams:
        if self.augment is None:
            return AugmentParams()
        number = self.cameras.clips[cell.clip].number
        return self.augment.draw(seed=cell.seed, epoch=cell.epoch, of=number, camera=camera)


def check_views(view: object, augment: object, *, size: object, fit: object) -> None:
    """Refuse what is no view or no chance in it, and what would contradict it.

    Raises:
        ConfigError: it is so.
    """
    views = [*view.values()] if isinstance(view, Mapping) else [view]
    if view is not None and not (views and all(isinstance(each, CameraView) for each in views)):
        raise ConfigError(
            "view must be a CameraView, such as CameraView(resize=0.44, crop=(256, 704)), or a "
            f"dict with one for each camera, got {view!r}"
        )
    if view is not None:
        _check_only_view(size=size, fit=fit)
    if augment is None:
        return
    if not isinstance(augment, ClipAugment):
        raise ConfigError(f"augment must be a ClipAugment, such as flip=0.5 in it, got {augment!r}")
    if (augment.scale != (1.0, 1.0) or augment.slides) and fit != "stretch":
        raise ConfigError(
            f"augment scales or slides what is cropped, got fit={fit!r}; say by "
            "view=CameraView(resize=..., crop=...) what is cropped"
        )


def _check_only_view(*, size: object, fit: object) -> None:
    """Refuse a size or a fit beside a view: ConfigError."""
    given = []
    if size is not None:
        given.append(f"size={size}")
    if fit != "stretch":
        given.append(f"fit={fit!r}")
    if not given:
        return
    does, them = ("does", "it") if len(given) == 1 else ("do", "them")
    raise ConfigError(
        f"view= says what becomes of pictures, and so {does} {' and '.join(given)}; leave {them} "
        f"out{_INSTEAD.get(str(fit), '')}"
    )


def _of_each(
    view: CameraView | Mapping[str, CameraView], cameras: tuple[str, ...]
) -> tuple[CameraView, ...]:
    if isinstance(view, CameraView):
        return (view,) * len(cameras)
    if set(view) != set(cameras):
        raise ConfigError(
            f"view needs a CameraView for each of {', '.join(cameras)}, got some for "
            f"{', '.join(map(str, view))}"
        )
    return tuple(view[camera] for camera in cameras)
