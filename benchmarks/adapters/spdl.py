"""SPDL: streaming decoders in the threads of its pipeline, with scaling in its filter graph.

Streaming took 2.2 ms of CPU time per 720p frame, `load_video` of whole files 2.5 ms.

For random frames, the packets of all files stay in memory, and one call decodes all frames of a
file in a batch. SPDL has no index or decoder to keep open; `sample_decode_video` decodes from
keyframe to keyframe.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import spdl.io
from spdl.pipeline import PipelineBuilder

from benchmarks.adapters import CHUNK, Chunk, Delivery, Frames, ReadFrames, numbered

PACKAGES = ("spdl", "spdl_io")


def every_frame(paths: Sequence[Path], size: tuple[int, int], workers: int) -> Delivery:
    """Return every frame, one file per thread; SPDL's decoders have one thread by default."""
    scale = _scale(size)

    def work(item: tuple[int, Path]) -> Iterator[Chunk]:
        number, path = item
        yield from numbered(number, _decode(path, scale))

    pipeline = (
        PipelineBuilder()
        .add_source(enumerate(paths))
        .pipe(work, concurrency=workers)
        .add_sink(2 * workers)
        .build(num_threads=workers)
    )

    def batches() -> Iterator[Chunk]:
        with pipeline.auto_stop():
            yield from pipeline

    return Delivery(batches())


def _scale(size: tuple[int, int] | None) -> Any:
    return size and spdl.io.get_video_filter_desc(
        scale_width=size[1], scale_height=size[0], scale_mode=None, scale_algo="area"
    )


def _decode(path: Path, scale: str | None) -> Iterator[Frames]:
    with spdl.io.Demuxer(str(path)) as demuxer:
        decoder = spdl.io.Decoder(demuxer.video_codec, filter_desc=scale)
        for packets in demuxer.streaming_demux(demuxer.video_stream_index, num_packets=CHUNK):
            yield from map(_delivered, decoder.streaming_decode_packets(packets))
        yield from map(_delivered, decoder.flush())


def reader(path: Path, size: tuple[int, int] | None = None) -> ReadFrames:
    """Return a reader that scales in SPDL's filter graph."""
    scale, packets = _scale(size), spdl.io.demux_video(str(path))
    return lambda indices: list(
        _delivered(spdl.io.sample_decode_video(packets.clone(), list(indices), filter_desc=scale))
    )


def _delivered(frames: Any) -> Frames:
    delivered: Frames = spdl.io.to_numpy(spdl.io.convert_frames(frames))
    return delivered
