"""ClipLoader: batches of clips, decoded by a plan."""

import os
from collections.abc import Iterable

import torch

from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import OnError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sampling.clips import RandomClips
from headrace.sampling.sampler import Sampler
from headrace.training.collate import Transform
from headrace.training.loader import FrameLoader
from headrace.video.shape import Layout
from headrace.video.source import Source


class ClipLoader(FrameLoader):
    """Batches of clips: as `FrameLoader`, and `frames` are uint8 [N, T, 3, H, W].

        with ClipLoader(videos, clips=RandomClips(num_frames=16, stride=2)) as loader:
            for batch in loader: ...

    An epoch of `RandomClips` takes each video once, one of `UniformClips` each clip once.
    """

    def __init__(
        self,
        videos: Iterable[Source | str | os.PathLike[str]],
        *,
        clips: Sampler | None = None,
        batch_size: int = 8,
        size: tuple[int, int] | None = (256, 256),
        memory_budget: int | str = "1GiB",
        hold: Layout = "rgb",
        lookahead: int | None = None,
        workers: int | None = None,
        seed: int | None = None,
        drop_last: bool = False,
        transform: Transform | None = None,
        device: torch.device | str | None = None,
        pin_memory: bool = False,
        on_error: OnError = "raise",
        quarantine: str | os.PathLike[str] | None = None,
        rank: int | None = None,
        num_replicas: int | None = None,
        persistent: bool = True,
        stall_seconds: float | None = 120.0,
        store: IndexStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Open the index of every video; see `FrameLoader` for all but `clips`.

        Args:
            clips: Which clips, in which order; None means `RandomClips(num_frames=16, stride=2)`.
            lookahead: As there, but the frames of a clip are always planned together.
        """
        clips = RandomClips(num_frames=16, stride=2) if clips is None else clips
        super().__init__(
            videos,
            batch_size=batch_size,
            size=size,
            sampling=clips,
            memory_budget=memory_budget,
            hold=hold,
            lookahead=lookahead,
            workers=workers,
            seed=seed,
            drop_last=drop_last,
            transform=transform,
            device=device,
            pin_memory=pin_memory,
            on_error=on_error,
            quarantine=quarantine,
            rank=rank,
            num_replicas=num_replicas,
            persistent=persistent,
            stall_seconds=stall_seconds,
            store=store,
            clock=clock,
        )
