"""From GOP jobs to frames that are held until their batch is due."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic

import numpy as np

from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.frame_outputs import Out, Pixels
from headrace.decode.job_result import read
from headrace.decode.multi_shape_output import MultiShapeOutput
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.decode.proxy_decoder import ProxyCodecs
from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import MediaError
from headrace.loaders.frame_memory import FrameMemory
from headrace.loaders.frame_views import FrameView, FrameViews, SampleViews
from headrace.loaders.video_set import VideoSet
from headrace.planning.lookahead import GopJob
from headrace.runtime.synchronization import ResourcePool
from headrace.sampling.population import Population
from headrace.video.frame_format import FrameFormat


@dataclass(frozen=True, kw_only=True)
class Decoded(Generic[Pixels]):
    """What became of a job: each of its frames is in one of the two."""

    frames: dict[int, Pixels] = field(default_factory=dict)
    """Id → the frame, in the layout of the shape. Ids are those of `FrameViews`."""
    failures: dict[int, MediaError] = field(default_factory=dict)
    """Id → why there is no such frame."""
    concealed: set[int] = field(default_factory=set)
    """Ids of those among `frames` that are damaged, and shown as FFmpeg shows them."""


class JobDecoder(Generic[Pixels]):
    """Decodes GOP jobs of a video set, in as many threads as like to.

    Files stay open between jobs, shared by the threads; codecs do not: a file that waits takes some
    500 kB, its codec would take 10 MB at 720p.
    """

    def __init__(
        self,
        videos: VideoSet,
        memory: FrameMemory[Pixels],
        max_open: int,
        *,
        conceals: bool = False,
        decoding: DecoderConfig = ON_CPU,
        framings: SampleViews | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            videos: What the ids in jobs mean.
            memory: What frames are made into, and where they go; give it back what is done with.
            max_open: Files that stay open between jobs.
            conceals: Whether damaged frames are delivered as FFmpeg shows them.
            decoding: What decodes, and where; it leaves frames where the memory is.
            framings: How frames become pictures of that size, by video and by sample; None: all by
                the shape.
        """
        assert memory.shape.size is not None
        self.memory: FrameMemory[Pixels] = memory
        """Where frames come from; give them back when they are done with."""
        self.max_open = max_open
        self.conceals = conceals
        self.size = memory.shape.size
        self.pictures = FrameViews(videos=videos, framings=framings)
        """What the ids in jobs mean."""
        self._videos = videos
        self._decoding = decoding
        self._idle: ResourcePool[int, Decoder[Pixels]] = ResourcePool(max_open)
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
        """Close the files that wait, and free unused memory. Jobs may be decoded again."""
        self._idle.close()
        self.memory.close()

    def describe(self, job: object) -> str:
        """Return what a job is about, for a message."""
        if not isinstance(job, GopJob):
            return "a batch"
        frames = np.unique(self.pictures.frames(np.array(job.frames, np.int64)))
        videos, indices = self._videos.population.locate(frames)
        source = self._videos.indexes[int(videos[0])].source
        return f"{len(frames)} frames of {source} (from frame {int(indices[0])})"

    def worker(self) -> Callable[[GopJob], Decoded[Pixels]]:
        """Return a function that decodes jobs; for one thread, as it counts without a lock."""
        spent, codecs = DecodeCounters(), ProxyCodecs()
        self._spent.append(spent)

        def decode(job: GopJob) -> Decoded[Pixels]:
            done, cost = self._decode(job, codecs)
            spent.count(cost)
            return done

        return decode

    def _decode(self, job: GopJob, codecs: ProxyCodecs) -> tuple[Decoded[Pixels], DecodeCounters]:
        ids = np.array(job.frames, np.int64)
        videos, numbers = self._videos.population.locate(self.pictures.frames(ids))
        video = int(videos[0])
        indices: list[int] = numbers.tolist()
        framings = [self.pictures.framing(video, each) for each in job.frames]
        buffers = [self.memory.take() for _ in job.frames]
        opened = self._videos.indexes[video]
        is_proxy = isinstance(opened, ProxyIndex)  # nothing of it stays open, and it opens at once
        held = None if is_proxy else self._idle.take(video)
        shape = self.memory.shape if framings[0] is None else framings[0].shape
        decoder = held or self.memory.decoder(opened, shape, self._decoding, codecs)
        wanted = DecodeJob(tuple(sorted({*indices})), goes_on=False, conceals=self.conceals)
        reading = read(decoder, wanted, self._places(decoder, indices, framings, buffers))
        done: Decoded[Pixels] = Decoded()
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
                self.memory.give(buffer)
        if done.failures or is_proxy:
            decoder.close()
        else:
            decoder.rest()
            self._idle.put(video, decoder)
        return done, reading.cost

    def _places(
        self,
        decoder: Decoder[Pixels],
        indices: list[int],
        framings: list[FrameView | None],
        buffers: list[Pixels],
    ) -> Out[Pixels]:
        """Return where the frames of a job are written: each in its buffer, or in several."""
        several: defaultdict[int, list[tuple[FrameFormat, Pixels]]] = defaultdict(list)
        for index, framing, buffer in zip(indices, framings, buffers, strict=True):
            if framing is None:
                return buffers
            several[index].append((framing.shape, buffer))
        if all(len(each) == 1 and each[0][0] == decoder.shape for each in several.values()):
            return [several[each][0][1] for each in sorted(several)]
        return MultiShapeOutput(
            [several[each] for each in sorted(several)],
            partial(self.memory.converter, decoder.index),
        )
