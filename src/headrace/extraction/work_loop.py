"""The loop of one worker: chunks are done one after another, until none is left."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Protocol

from headrace.decode.index_store import IndexStore
from headrace.decode.option_words import in_option_words
from headrace.errors import HeadraceError, MediaError
from headrace.extraction.ledger import Ledger
from headrace.runtime.child import Json
from headrace.runtime.speaker import Speaker, chunks_to_do


class ChunkWorker(Protocol):
    """What does chunks, with what it keeps open from one to the next."""

    def do(self, speaker: Speaker) -> None:
        """Do one chunk: its files, then its entry in the ledger.

        Raises:
            HeadraceError: it cannot be done.
        """

    def close(self) -> None:
        """Close what is open."""


def do_chunks(
    argument: Json,
    send: Callable[[Json], None],
    worker_of: Callable[[Ledger, IndexStore, bool], ChunkWorker],
) -> None:
    """Do chunks until none is left.

    What ends the whole run (no room on the disk, a bad frame where those are errors) is said, and
    ends this worker.

    Args:
        argument: What all workers are told: see `Extraction.work`.
        send: Sends what is said.
        worker_of: Makes the worker, of the ledger, where indexes are kept, and whether bad media is
            an error.
    """
    assert isinstance(argument, dict)
    ledger = Ledger(Path(str(argument["folder"])))
    store, raises = IndexStore(Path(str(argument["store"]))), bool(argument["raises"])
    with ledger.as_worker(), closing(worker_of(ledger, store, raises)) as work:
        for speaker in chunks_to_do(argument, send):
            try:
                work.do(speaker)
            except HeadraceError as error:
                source = error.source if isinstance(error, MediaError) else None
                if source is not None and not raises:
                    speaker.say({"unreadable": str(error)})
                    continue
                speaker.say({"failed": {"why": in_option_words(str(error)), "source": source}})
                break
