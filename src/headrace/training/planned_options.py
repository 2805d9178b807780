"""What may be asked of a loader that plans its decoding: of frames, clips or camera windows."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError
from headrace.sizes import check_switches, one_of
from headrace.training.options import LoaderOptions
from headrace.video.fitting import Fit
from headrace.video.shape import FrameShape, Interpolation, Layout, PixelType

OnBad = Literal["raise", "skip", "conceal", "mask"]
"""What bad media does: as `OnError`; or, where a sample shows many frames, what cannot be decoded
comes black and masked, and the rest of the sample as it is."""


@dataclass(frozen=True, kw_only=True)
class PlannedOptions(LoaderOptions):
    """What may be asked of a loader that plans its decoding.

    Args:
        batch_size: Samples in a batch of this rank; the last one of an epoch may have fewer.
        size: (height, width) of the frames; None keeps that of the videos, if it is one.
        fit: Where `size` has another aspect ratio: `stretch`, `cover` (cut what reaches beyond) or
            `contain` (all of it, on black).
        interpolation: How frames are resized: `area`, or torchvision's antialiased `bilinear` or
            `bicubic`, at about twice the cost.
        dtype: `uint8`, or `uint16`, in twice the bytes, for video of more than 8 bits.
        memory_budget: Bytes, as a number or like "256MiB", for frames that are decoded and
            wait, for two batches, and for codecs, some 11 MB for each worker at 720p (of more
            than a quarter of the budget, the rest comes on top). Open files, in up to a sixteenth
            of it, come on top. Where frames stay on a GPU, it is the memory of that GPU, and what
            its codecs hold comes on top.
        hold: How decoded frames wait: `rgb` exactly; `yuv420` in half the bytes, so that twice as
            many fit, and delivered with colour at half the resolution.
        lookahead: Requests for single frames that are planned together, those of a clip always;
            None takes as many as the budget is expected to hold, and begins with those of one
            batch, so that the first comes as soon as without looking ahead; whoever reads a set
            only once has it decoded less often with a number. 1 is naive random access.
        seed: Another one gives other batches; None keeps that of the sampler, which is 0 by
            default. Beside a sampler with a seed of its own, above 0, it must be equal.
        drop_last: Leave out the last batch of an epoch if it is smaller; one must be left.
        on_error: What bad media does. With `skip`, a video that cannot be opened is left out,
            and a sample that cannot be decoded is replaced by another draw, by a rule that
            timing plays no part in; both are counted, and listed in `quarantined`. With `conceal`,
            a damaged frame is delivered as FFmpeg shows it, and marked in `Batch.is_concealed`.
            With either, ranks of torch.distributed compare what they left out, so each must open
            its loader.
        quarantine: A file that bad frames are listed in, too; the next run leaves them alone from
            the start, with the same batches.
        persistent: Decode ahead into the next epoch while one ends. False ends all threads
            with each epoch: for evaluation.
    """

    _ON_ERROR: ClassVar[tuple[str, ...]] = get_args(OnError)
    """What `on_error` may be."""

    batch_size: int
    size: tuple[int, int] | None = (256, 256)
    fit: Fit = "stretch"
    interpolation: Interpolation = "area"
    dtype: PixelType = "uint8"
    hold: Layout = "rgb"
    seed: int | None = None
    drop_last: bool = False
    on_error: OnBad = "raise"
    quarantine: str | os.PathLike[str] | None = None
    persistent: bool = True

    def check(self) -> None:
        """Refuse what is out of range, or no choice: ConfigError; a GPU that is not here."""
        super().check()
        one_of(Layout, hold=self.hold)
        check_on_error(self.on_error, self._ON_ERROR)
        check_switches(drop_last=self.drop_last, persistent=self.persistent)
        self.shape(self.size, "rgb")  # refuses impossible sizes
        if self.hold != "rgb" and self.dtype != "uint8":
            raise ConfigError(
                f"hold={self.hold!r} keeps 8 bits, and dtype={self.dtype!r} was asked for; leave "
                "out one of the two"
            )

    def shape(self, size: tuple[int, int] | None, layout: Layout) -> FrameShape:
        """Return what frames are made into, as they wait in a layout. Raises as `FrameShape`."""
        return FrameShape(
            size=size,
            fit=self.fit,
            interpolation=self.interpolation,
            layout=layout,
            dtype=self.dtype,
        )

    @property
    def skips_bad(self) -> bool:
        """Whether bad media is left out, concealed or masked, so that ranks may differ."""
        return self.on_error != "raise"

    @property
    def masks_bad(self) -> bool:
        """Whether a sample is delivered without its bad frames, in place of another one."""
        return self.on_error == "mask"

    @property
    def quarantine_path(self) -> Path | None:
        """The file that bad frames are listed in."""
        return None if self.quarantine is None else Path(self.quarantine)
