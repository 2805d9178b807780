"""How fast is a FrameLoader of so many threads, over so slow a network?"""

import zlib
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from benchmarks.cores.slow_source import Network, SlowSource
from benchmarks.resources import Meter
from headrace import Bursts, FrameLoader, Sampler, Source, Uniform
from headrace.decode.pixels import Array
from headrace.decode.protocol import DecodeCounters
from headrace.decode.proxy_codecs import ProxyCodecs
from headrace.planning.lookahead import GopJob
from headrace.training.decoding import Decoded, JobDecoder


def _undecoded(
    self: JobDecoder[Array], job: GopJob, codecs: ProxyCodecs
) -> tuple[Decoded[Array], DecodeCounters]:
    """Give memory that nothing was decoded into."""
    frames = {frame: self.memory.take() for frame in job.frames}
    return Decoded(frames=frames), DecodeCounters()


def answer(
    *,
    paths: list[str],
    size: tuple[int, int],
    batch_size: int,
    threads: int,
    memory_budget: str,
    lookahead: int | None,
    frames_per_burst: int | None,
    way: str,
    latency_ms: float,
    megabytes_per_second: float | None,
    warm_up_seconds: float,
    seconds: float,
) -> dict[str, Any]:
    """Time batches after the warm-up; the checksum is that of the first one."""
    if way == "undecoded":
        JobDecoder._decode = _undecoded  # type: ignore[method-assign, assignment]
    network = Network(latency_ms, megabytes_per_second)
    is_slow = latency_ms > 0 or megabytes_per_second is not None
    with FrameLoader(
        [
            SlowSource(Path(each), network=network) if is_slow else Source(Path(each))
            for each in paths
        ],
        batch_size=batch_size,
        size=(size[0], size[1]),
        sampling=_sampling(frames_per_burst, batch_size),
        memory_budget=memory_budget,
        lookahead=lookahead,
        workers=threads,
    ) as loader:
        batches = chain.from_iterable(repeat(loader))
        meter, first = Meter(), next(batches)
        checksum = zlib.crc32(first.frames.numpy().tobytes())
        warm = len(first)
        while warm < loader.lookahead and meter.wall_seconds < warm_up_seconds:
            warm += len(next(batches))
        frames, asked = 0, network.requests
        meter = Meter()
        while meter.wall_seconds < seconds:
            frames += len(next(batches))
        assert bool(loader.statistics.frames_decoded) == (way == "decoded")
        return {
            "repeat": {
                **meter.read(),
                "frames": frames,
                "warm_up_frames": warm,
                "lookahead": loader.lookahead,
            },
            "requests": network.requests - asked,
            "checksum": checksum,
        }


def _sampling(frames_per_burst: int | None, batch_size: int) -> Sampler:
    if frames_per_burst is None:
        return Uniform(seed=1)
    return Bursts(frames_per_burst=frames_per_burst, lanes=batch_size, seed=1)
