"""CameraOptions: the arguments of a CameraLoader."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from headrace.decode.protocol import check_on_error
from headrace.errors import ConfigError
from headrace.loaders.cameras.augment import ClipAugment
from headrace.loaders.cameras.camera_alignment import Alignment
from headrace.loaders.cameras.camera_batch import Ragged
from headrace.loaders.cameras.camera_view import CameraView, check_views
from headrace.loaders.cameras.moment_table import MetadataOf, check_metadata
from headrace.loaders.loader_options import LoaderOptions
from headrace.sampling.moments import Moments
from headrace.sampling.slots import Tail
from headrace.units import check_integers, one_of, parse_bytes
from headrace.video.camera_layout import CameraLayout
from headrace.video.frame_format import Fit, Interpolation

OnLost = Literal["raise", "mask"]
"""Effect of a damaged frame: an error, or a black frame, marked and counted."""

_MAX_AHEAD = 32
"""Batches decoded ahead by default, at most."""


@dataclass(frozen=True, kw_only=True)
class CameraOptions(LoaderOptions):
    """Arguments of a `CameraLoader`.

    Args:
        layout: The clips; or the path of an index file `{video_dir: {clip: frame_count}}`.
        group_num: Clips in a batch of this rank: its slots.
        cameras: Names of the cameras to read from an index file, in the order of a batch; None:
            all, by name.
        size: (height, width) of the frames; None keeps that of the cameras, which must be equal.
        fit: Where `size` has another aspect ratio: `stretch`, `cover` (cut what reaches beyond) or
            `contain` (all of it, with black borders).
        interpolation: How frames are resized: `area`, or torchvision's antialiased `bilinear` or
            `bicubic`.
        view: In place of `size`: a `CameraView`, or a dict of one for each camera.
        augment: Random geometry of a clip's frames: a `ClipAugment`, drawn once for each pass of a
            clip. `batch.image_matrix` has the result of views and augmentation.
        ragged: Batches of frames that differ in size: `pad` or `list`; None: an error.
        alignment: Which frames belong to one moment; None means those of the same index.
        metadata: Metadata of each moment, for `batch.metadata`: a function of the clip's name and
            a `ClipMoment` that returns a mapping, or a `MomentTable`. Called in the thread that
            takes batches.
        moments: The moments of each clip to deliver, as `Moments`; None means all.
        tail: End of an epoch, when slots run out of clips: `pad`, `drop` or `refill`; or `endless`:
            slots go on to clips of the next epoch, and the loader has no length.
        seq_split: Parts that each clip is cut into; each is a sequence with its own `first_frame`.
        shuffle: Read clips in another random order in each epoch.
        seed: Seed of the order, of `augment` and of `transform`.
        lookahead: Frames of each camera that are decoded ahead; None takes as many as the budget
            allows, at most 32.
        memory_budget: Bytes, as a number or like "1GiB", for batches: those decoded ahead, and two
            more; GPU memory if frames stay there. Codecs come on top: some 17 MB for each open
            file at 1600x900.
        num_of_file: Files that are open at a time, but at least one more than there are threads;
            None: all that are being read, up to half the system's limit. With fewer, decoders seek
            back to a keyframe for each job, which is counted.
        transform: Called with the frames of each sample, [C, 3, H, W], on their device; with
            ragged="list", with each frame. Its random numbers follow from seed, epoch and clip, so
            that all moments of a clip are transformed alike.
        on_error: Effect of bad media. With `mask`, clips that cannot be opened are left out (or a
            camera is masked, if its alignment masks what is missing), and a frame that cannot be
            decoded is black, marked in `valid` and counted. Ranks of torch.distributed then
            compare what they opened: each must make its loader.
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

    @property
    def is_strict(self) -> bool:
        """Whether bad media is an error."""
        return self.on_error == "raise"

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
                f"the next one, and the lookahead): {needed:,.1f} MiB are needed; raise it, or "
                "choose a smaller group_num, size or lookahead"
            )
        return min(fit, _MAX_AHEAD) if lookahead is None else lookahead


def layout_for(
    layout: CameraLayout | str | os.PathLike[str], cameras: Iterable[str] | None
) -> CameraLayout:
    """Return a layout, read from its index file if a path is given.

    Raises:
        ConfigError: the value has another type, the file cannot be read, or `cameras` is given
            with a CameraLayout, which has its own.
    """
    if isinstance(layout, str | os.PathLike):
        return CameraLayout.read(layout, cameras)
    if not isinstance(layout, CameraLayout):
        raise ConfigError(
            "layout must be a CameraLayout, or the path of an index file, got "
            f"{type(layout).__name__}"
        )
    if cameras is not None:
        raise ConfigError(
            "cameras= chooses from an index file, and a CameraLayout was given, which has its own; "
            "use dataclasses.replace(layout, cameras=...)"
        )
    return layout
