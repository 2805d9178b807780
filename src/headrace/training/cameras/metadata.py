"""What belongs to a moment besides its pictures: poses, calibration, labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data._utils.collate import default_collate_fn_map

from headrace.errors import ConfigError, HeadraceError, in_words
from headrace.sampling.alignment import MISSING
from headrace.training.cameras.aligned import AlignedClip


@dataclass(frozen=True, kw_only=True)
class ClipMoment:
    """The moment that metadata is asked for."""

    number: int
    """In the reference's own count: `index` of a batch."""
    seconds: float
    """When it is, on the common clock."""
    frames: Mapping[str, int]
    """Camera → the number of the frame that is shown for it; cameras without one are not in it. In
    the order of the batch."""
    cameras: tuple[str, ...]
    """All cameras, in the order of the batch."""


MetadataOf = Callable[[str, ClipMoment], Mapping[str, Any]]
"""(name of the clip, moment) → what belongs to it. A table, `MomentTable`, is one; so is
`NuScenes.metadata`. Called in the worker that decodes, or in the thread that takes batches."""


class MomentMetadata(dict[str, Any]):
    """What belongs to a moment, by name. A stock DataLoader makes a list of those of a batch.

    A plain dict it would take apart, and stack what it finds under each name, for which slots that
    have run out of clips, and moments that lack something, have nothing.
    """


def _as_list(
    batch: Sequence[MomentMetadata], *, collate_fn_map: object = None
) -> list[MomentMetadata]:
    return list(batch)


# What PyTorch offers for types of one's own: torch.utils.data.default_collate, "Option 2".
default_collate_fn_map[MomentMetadata] = _as_list


def metadata_of(
    metadata: MetadataOf, of: AlignedClip, row: int, cameras: tuple[str, ...]
) -> MomentMetadata:
    """Return what belongs to a moment of a clip, row of it, whose cameras are called `cameras`.

    Raises:
        ConfigError: `metadata` failed, or returned no mapping; names clip and moment.
    """
    frames = zip(cameras, of.frames[row].tolist(), strict=True)
    moment = ClipMoment(
        number=int(of.moments[row]),
        seconds=float(of.moment_seconds[row]),
        frames={camera: frame for camera, frame in frames if frame != MISSING},
        cameras=cameras,
    )
    clip = of.clip.name
    where = f"metadata of clip {clip!r}, moment {moment.number} ({moment.seconds:.6f} s)"
    try:
        found = metadata(clip, moment)
    except HeadraceError:
        raise
    except Exception as error:  # Whatever it is; StopIteration would end the epoch in silence.
        raise ConfigError(
            f"{where} failed: {in_words(error)}; it is called with the name of a clip, and a "
            "moment with number, seconds and frames"
        ) from error
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"{where} must be a mapping by name, such as {{}}, got {type(found).__name__}"
        )
    return MomentMetadata(found)


def check_metadata(metadata: object) -> None:
    """Raise ConfigError if `metadata` is neither None nor something that can be called."""
    if metadata is not None and not callable(metadata):
        raise ConfigError(
            "metadata must be a function of (clip name, moment), or a MomentTable, got "
            f"{type(metadata).__name__}; for a file there is MomentTable.read(path)"
        )
