"""Proxy worker: writes proxies, reads them back, and records them in the journal."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.atomic_file import partial_of
from headrace.decode.protocol import DecodeCounters
from headrace.decode.proxies import VIDEOS, ProxyRow
from headrace.decode.proxy_index import write_proxy_entry
from headrace.errors import BackendError, DecodeError, file_errors
from headrace.extraction.chunk_worker import ChunkWorker, chunk_of, do_chunks
from headrace.extraction.journal import HOME, Journal, JournalEntry
from headrace.extraction.progress_recorder import StepTimer
from headrace.extraction.proxies.make_proxy import PARTS, MadeProxy, make_proxy
from headrace.extraction.proxies.proxy_options import proxy_shape, proxy_size
from headrace.runtime.child_spec import Json
from headrace.runtime.worker_protocol import ChunkReporter
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex

_STEP_FRAMES = 64


def make_proxies(argument: Json, send: Callable[[Json], None]) -> Json:
    """Run all remaining chunks: see `Extraction.pool_task`."""
    do_chunks(argument, send, ProxyWorker)
    return None


class ProxyWorker(ChunkWorker):
    """Makes proxies, one after another."""

    def __init__(self, argument: dict[str, Any], journal: Journal) -> None:
        """Open nothing yet: see `ChunkWorker`."""
        super().__init__(argument, journal)
        self._asked = self.request.asked
        self._size = proxy_size(str(self._asked["size"]))

    def shape_of(self, index: StreamIndex) -> FrameFormat:
        """Return the format of a proxy's frames."""
        return proxy_shape(self._size, index.info.upright_size)

    def do(self, reporter: ChunkReporter) -> None:
        """Write the files of one proxy, then its journal entry.

        Raises:
            ConfigError: the folder cannot be written.
            BackendError: the encoder does not support frames of this size.
            MediaError: the video is damaged and `on_error` is "raise"; or it can no longer be
                opened, or has changed.
        """
        began_ns, (chunk, _) = self.clock.now_ns(), chunk_of(reporter.payload)
        name, decoder = self.request.videos[chunk.video].name, self.decoder_of(chunk.video)
        before = DecodeCounters() + decoder.counters
        index = decoder.index
        partial = partial_of(self.journal.folder / HOME / f"{name}.mp4")
        timer = StepTimer(chunk.video, reporter.send, self.clock, parts=PARTS, frames=_STEP_FRAMES)
        try:
            proxy = make_proxy(
                decoder,
                partial,
                timer,
                codec=self._asked["codec"],  # type: ignore[arg-type]
                gop=int(str(self._asked["gop"])),
                conceals=self.request.conceals,
                frames=range(chunk.start, chunk.stop),
            )
            entry = self._kept(proxy, partial, name, index, began_ns)
        except (BackendError, DecodeError) as error:
            if self.raises:
                raise
            entry = JournalEntry(files=(), facts={"left_out": str(error)})
        cost = decoder.counters - before
        self.finish(reporter, entry, cost, lost=0 if entry.files else len(index))

    def _kept(
        self, proxy_made: MadeProxy, partial: Path, name: str, index: StreamIndex, began_ns: int
    ) -> JournalEntry:
        """Move the files of a proxy into place; return the journal entry."""
        folder = self.journal.folder
        proxy, facts = Path(VIDEOS) / f"{name}.mp4", Path(VIDEOS) / f"{name}.npz"
        with file_errors(f"cannot write {folder / proxy}", "give another folder with -o"):
            (folder / VIDEOS).mkdir(exist_ok=True)
            num_bytes = partial.stat().st_size
            partial.replace(folder / proxy)
        write_proxy_entry(folder / facts, index, proxy_made.packets)
        row = ProxyRow(
            path=str(index.source.path),
            name=name,
            stream=index.source.stream,
            fingerprint=asdict(index.fingerprint),
            content=index.source.content_id(),
            proxy=proxy.as_posix(),
            bytes=num_bytes,
            original_bytes=index.fingerprint.size,
            frames=len(index),
            height=proxy_made.look.size[0],
            width=proxy_made.look.size[1],
            original_height=index.info.upright_size[0],
            original_width=index.info.upright_size[1],
            gop=proxy_made.look.gop,
            codec=proxy_made.look.codec,
            psnr=proxy_made.psnr,
            ssim=proxy_made.ssim,
            lost=tuple(proxy_made.packets.lost.tolist()),
            seconds=round((self.clock.now_ns() - began_ns) / 1e9, 3),
        )
        files = ((str(proxy), num_bytes), (str(facts), (folder / facts).stat().st_size))
        return JournalEntry(files=files, facts=asdict(row))
