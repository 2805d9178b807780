"""Which proxies are to be made, found out before anything is decoded or written."""

from dataclasses import dataclass

import numpy as np

from headrace.extraction.plan import ExtractionPlan
from headrace.extraction.proxies.request import ProxyOptions
from headrace.extraction.videos import Videos
from headrace.planning.chunks import Chunk
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyPlan(ExtractionPlan):
    """A chunk for each video, in order: a proxy is made in one go, by one worker."""

    chunks: tuple[Chunk, ...]

    @classmethod
    def of(cls, options: ProxyOptions, videos: Videos) -> "ProxyPlan":
        """Return that all of each video is wanted."""
        return cls(
            request=options.request(videos.asked),
            indexes=videos.indexes,
            chunks=tuple(_whole(number, index) for number, index in videos.indexes.items()),
            left_out=videos.left_out,
            notes=videos.notes,
        )

    @property
    def longest_first(self) -> list[Chunk]:
        """The chunks as they are shared out: what takes longest must not begin last."""
        return sorted(self.chunks, key=lambda chunk: -chunk.cost)

    @property
    def frames(self) -> int:
        """Frames of all videos that can be opened."""
        return sum(map(len, self.indexes.values()))


def _whole(number: int, index: StreamIndex) -> Chunk:
    return Chunk(
        video=number,
        start=0,
        stop=len(index),
        frames=len(index),
        decoded=len(index),
        cost=float(len(index) * np.prod(index.info.upright_size)),
    )
