"""From GOP jobs to frames that are held until their batch is due."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.decode.chooser import Chooser
from headrace.decode.decoding import ON_CPU, Decoding
from headrace.decode.open import open_decoder
from headrace.decode.pixels import Array, Out
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.decode.proxy_codecs import ProxyCodecs
from headrace.decode.proxy_index import ProxyIndex
from headrace.decode.reading import read
from headrace.decode.several import SeveralShapes
from headrace.errors import MediaError
from headrace.planning.lookahead import GopJob
from headrace.runtime.shelf import Shelf
from headrace.sampling.population import Population
from headrace.training.frame_buffers import FrameBuffers
from headrace.training.pictures import Framing, Framings, Pictures
from headrace.training.video_set import VideoSet
from headrace.video.shape import FrameShape


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What became of a job: each of its frames is in one of the two."""

    frames: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    """Id → the frame, in the layout of the shape. Ids are those of `Pictures`."""
    failures: dict[int, MediaError] = field(default_factory=dict)
    """Id → why there is no such frame."""
    concealed: set[int] = field(default_factory=set)
    """Ids of those among `frames` that are damaged, and shown as FFmpeg shows them."""


class JobDecoder:
    """Decodes GOP jobs of a video set, in as many threads as like to.

    Files stay open between jobs, shared by the threads; codecs do not: a file that waits takes some
    500 kB, its codec would take 10 MB at 720p.
    """

    def __init__(
        self,
        videos: VideoSet,
        shape: FrameShape,
        max_open: int,
        *,
        conceals: bool = False,
        decoding: Decoding = ON_CPU,
        framings: Framings | None = None,
        chooser: Chooser | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            videos: What the ids in jobs mean.
            shape: What frames are made into; it has a size.
            max_open: Files that stay open between jobs.
            conceals: Whether damaged frames are delivered as FFmpeg shows them.
            decoding: What decodes, and where.
            framings: How frames become pictures of that size, by video and by sample; None: all by
                the shape.
            chooser: Sends jobs to the CPU and the GPU, where `decoding` is that.
        """
        assert shape.size is not None
        self.shape = shape
        self.max_open = max_open
        self.conceals = conceals
        self.size = shape.size
        self.buffers = FrameBuffers(shape.array_shape(shape.size), shape.dtype)
        """Where frames come from; give them back when they are done with."""
        self.pictures = Pictures(videos=videos, framings=framings)
        """What the ids in jobs mean."""
        self._videos = videos
        self._decoding = decoding
        self._chooser = chooser
        # A decoder of either has the file open on both ways.
        most = max_open if chooser is None else max(1, max_open // chooser.num_ways)
        self._idle: Shelf[int, Decoder[Array]] = Shelf(most)
        self._spent: list[DecodeCounters] = []

    @property
    def population(self) -> Population:
        """The frames of the videos by the GOPs that jobs are of."""
        return self._videos.decoded_population

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all workers."""
        return sum(tuple(self._spent), DecodeCounters())

    def close(self) -> None:
        """Close the files that wait, and free unused buffers. Jobs may be decoded again."""
        self._idle.close()
        self.buffers.clear()

    def describe(self, job: object) -> str:
        """Return what a job is about, for a message."""
        if not isinstance(job, GopJob):
            return "a batch"
        frames = np.unique(self.pictures.frames(np.array(job.frames, np.int64)))
        videos, indices = self._videos.population.locate(frames)
        source = self._videos.indexes[int(videos[0])].source
        return f"{len(frames)} frames of {source} (from frame {int(indices[0])})"

    def worker(self) -> Callable[[GopJob], Decoded]:
        """Return a function that decodes jobs; for one thread, as it counts without a lock."""
        spent, codecs = DecodeCounters(), ProxyCodecs()
        self._spent.append(spent)

        def decode(job: GopJob) -> Decoded:
            done, cost = self._decode(job, codecs)
            spent.count(cost)
            return done

        return decode

    def _decode(self, job: GopJob, codecs: ProxyCodecs) -> tuple[Decoded, DecodeCounters]:
        ids = np.array(job.frames, np.int64)
        videos, numbers = self._videos.population.locate(self.pictures.frames(ids))
        video, indices = int(videos[0]), numbers.tolist()
        framings = [self.pictures.framing(video, each) for each in job.frames]
        buffers = [self.buffers.take() for _ in job.frames]
        opened = self._videos.indexes[video]
        is_proxy = isinstance(opened, ProxyIndex)  # nothing of it stays open, and it opens at once
        held = None if is_proxy else self._idle.take(video)
        shape = self.shape if framings[0] is None else framings[0].shape
        decoder = held or open_decoder(
            opened, shape, self._decoding, codecs=codecs, chooser=self._chooser
        )
        wanted = DecodeJob(tuple(sorted({*indices})), goes_on=False, conceals=self.conceals)
        reading = read(decoder, wanted, _places(decoder, indices, framings, buffers))
        done = Decoded()
        each_one = zip(job.frames, indices, framings, buffers, strict=True)
        for picture, index, framing, buffer in each_one:
            if index in reading.came:
                if framing is not None:
                    framing.finish(buffer)
                done.frames[picture] = buffer
                if index in reading.concealed:
                    done.concealed.add(picture)
            elif reading.error is not None:
                done.failures[picture] = reading.error
                self.buffers.give(buffer)
        if done.failures or is_proxy:
            decoder.close()
        else:
            decoder.rest()
            self._idle.put(video, decoder)
        return done, reading.cost


def _places(
    decoder: Decoder[Array],
    indices: list[int],
    framings: list[Framing | None],
    buffers: list[Array],
) -> Out[Array]:
    """Return where the frames of a job are written: each in its buffer, or in several."""
    several: defaultdict[int, list[tuple[FrameShape, Array]]] = defaultdict(list)
    for index, framing, buffer in zip(indices, framings, buffers, strict=True):
        if framing is None:
            return buffers
        several[index].append((framing.shape, buffer))
    if all(len(each) == 1 and each[0][0] == decoder.shape for each in several.values()):
        return [several[each][0][1] for each in sorted(several)]
    return SeveralShapes(decoder.index, [several[each] for each in sorted(several)])
