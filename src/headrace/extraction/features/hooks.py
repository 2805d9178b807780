"""What an engine tells while it works."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.extraction.features.chunks import ChunkSpec


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What is called while an engine works, all in the thread that iterates it."""

    on_begun: Callable[[ChunkSpec], None] = lambda chunk: None
    """A chunk is taken: its video may be opened from now on."""
    on_read: Callable[[ChunkSpec], None] = lambda chunk: None
    """Its decoding is over: whatever ends the process later is not its fault."""
    on_frames: Callable[[int], None] = lambda frames: None
    """So many frames were decoded, or batches run: it does not hang."""
    on_note: Callable[[str], None] = lambda note: None
    """Something was decided that the user should know, in words; each once."""
    on_other_state: Callable[[list[str]], None] = lambda attributes: None
    """Attributes of the model differ from those in keys: its results go under none."""
    on_ways: Callable[[Mapping[str, int]], None] = lambda ways: None
    """So many frames more were decoded on each way: see `Decoders.frames`."""


NO_HOOKS = Hooks()
"""Nobody listens."""
