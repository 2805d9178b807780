"""CameraViews: what becomes of every picture of a camera set, asked by clip and camera."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.training.cameras.augment import ClipAugment, Drawn
from headrace.training.cameras.batch import Cell
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.framing import Framing
from headrace.training.cameras.view import CameraView
from headrace.video.fitting import Fit
from headrace.video.shape import FrameShape, Interpolation, Layout

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
    plain: FrameShape
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
            plain=FrameShape(
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

    def framing(self, cell: Cell, camera: int) -> Framing:
        """Return how a camera's pictures are framed in the pass that `cell` is of."""
        chance = (cell.seed, cell.epoch) if self.augment is not None else (0, 0)
        of, found = self._made.get((cell.clip, camera), (None, None))
        if found is None or of != chance:
            found = self.framed(cell.clip, camera, self._drawn(cell, camera))
            self._made[cell.clip, camera] = chance, found
        return found

    def framed(self, clip: int, camera: int, drawn: Drawn) -> Framing:
        """Return how pictures of a camera of a clip are framed, with what chance made of them."""
        upright = self.cameras.clips[clip].indexes[camera].info.upright_size
        shape = self.plain
        if self.views is not None or drawn.scale != 1.0:
            view = CameraView(resize=shape.size) if self.views is None else self.views[camera]
            fitting = view.fitting(upright, scale=drawn.scale, across=drawn.across)
            shape = FrameShape(size=fitting.size, fit=fitting, interpolation=shape.interpolation)
        return Framing.of(shape, upright, is_flipped=drawn.is_flipped, degrees=drawn.degrees)

    def matrices(self, cells: Sequence[Cell]) -> NDArray[np.float64]:
        """Return float64 [N, C, 3, 3], as `CameraBatch.image_matrix` has them of N cells."""
        found = np.empty((len(cells), len(self.cameras.cameras), 3, 3))
        for place, cell in enumerate(cells):
            for camera in range(len(self.cameras.cameras)):
                is_there = cell.clip >= 0
                found[place, camera] = self.framing(cell, camera).matrix if is_there else np.eye(3)
        return found

    def _drawn(self, cell: Cell, camera: int) -> Drawn:
        if self.augment is None:
            return Drawn()
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
