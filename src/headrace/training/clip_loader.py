"""ClipLoader: batches of clips, decoded by a plan."""

from dataclasses import dataclass

from headrace.sampling.clips import RandomClips
from headrace.sampling.sampler import Sampler
from headrace.training.arguments import takes
from headrace.training.loader import FrameLoader
from headrace.training.sample_options import SampleOptions


@dataclass(frozen=True, kw_only=True)
class ClipOptions(SampleOptions):
    """What may be asked of a `ClipLoader`.

    Args:
        clips: Which clips, in which order; None means `RandomClips(num_frames=16, stride=2)`.
    """

    batch_size: int = 8
    clips: Sampler | None = None


class ClipLoader(FrameLoader):
    """Batches of clips: as `FrameLoader`, and `frames` are uint8 [N, T, 3, H, W].

        with ClipLoader(videos, clips=RandomClips(num_frames=16, stride=2)) as loader:
            for batch in loader: ...

    An epoch of `RandomClips` takes each video once, one of `UniformClips` each clip once.
    Arguments are the fields of `ClipOptions`, which stands on `SampleOptions` and `LoaderOptions`.
    """

    _SAMPLES = "clips"
    _INSTEAD = (
        "give it to FrameLoader, as sampling=, or take one of clips, such as "
        "RandomClips(num_frames=16)"
    )

    @takes(ClipOptions)
    def __init__(self, asked: ClipOptions) -> None:
        """Open the index of every video; 1 ms for one that was seen before. Decodes nothing yet."""
        clips = RandomClips(num_frames=16, stride=2) if asked.clips is None else asked.clips
        self._open(asked, clips)
