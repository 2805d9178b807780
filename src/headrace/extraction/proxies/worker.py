"""What one worker does with a video: its proxy is made, read back, and noted in the ledger."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder
from headrace.decode.packet_table import write_proxy_entry
from headrace.decode.proxy_rows import VIDEOS, ProxyRow
from headrace.errors import BackendError, DecodeError, file_errors
from headrace.extraction.ledger import HOME, Entry, Ledger
from headrace.extraction.proxies.making import PARTS, MadeProxy, make_proxy
from headrace.extraction.proxies.request import Recipe
from headrace.extraction.proxies.settled import entry_without
from headrace.extraction.step_watch import StepWatch
from headrace.extraction.videos import reopened
from headrace.extraction.work_loop import do_chunks
from headrace.runtime.child import Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.speaker import Speaker
from headrace.text_file import partial_of
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

_STEP_FRAMES = 64


def make_proxies(argument: Json, send: Callable[[Json], None]) -> Json:
    """Make proxies until none is left: a `ChildFunction`."""
    do_chunks(argument, send, ProxyWorker)
    return None


class ProxyWorker:
    """Makes proxies, one after another."""

    def __init__(
        self, ledger: Ledger, store: IndexStore, raises: bool, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Open nothing yet; `raises`: bad media is an error."""
        request = ledger.request()
        self._ledger, self._store, self._raises, self._clock = ledger, store, raises, clock
        self._asked, self._recipe = request.videos, Recipe.of(request)

    def do(self, speaker: Speaker) -> None:
        """Make one proxy: its files, then its entry in the ledger.

        Raises:
            ConfigError: the folder cannot be written.
            BackendError: the encoder refuses frames of this size.
            MediaError: bad media is an error, and this is bad; or the video cannot be opened any
                more, or has changed.
        """
        began_ns, video = self._clock.now_ns(), int(str(speaker.told))
        name = self._asked[video].name
        index = reopened(self._asked[video], self._store)
        size = self._recipe.size.of(index.info.upright_size)
        partial = partial_of(self._ledger.folder / HOME / f"{name}.mp4")
        watch = StepWatch(video, speaker.say, self._clock, parts=PARTS, frames=_STEP_FRAMES)
        with closing(open_decoder(index, FrameShape(size=size, layout="yuv420"))) as decoder:
            try:
                made = make_proxy(decoder, self._recipe, partial, watch)
                entry = self._kept(made, partial, name, index, began_ns)
            except (BackendError, DecodeError) as error:
                if self._raises:
                    raise
                entry = entry_without(str(error))
            cost: Json = dict(vars(decoder.counters))
        self._ledger.write(speaker.chunk, entry)
        speaker.say({"chunk": {"decode": cost, "lost": 0 if entry.files else len(index)}})

    def close(self) -> None:
        """Do nothing: a video is open while its proxy is made."""

    def _kept(
        self, made: MadeProxy, partial: Path, name: str, index: StreamIndex, began_ns: int
    ) -> Entry:
        """Put the files of a proxy where they belong; return the entry that names them."""
        folder = self._ledger.folder
        proxy, facts = Path(VIDEOS) / f"{name}.mp4", Path(VIDEOS) / f"{name}.npz"
        with file_errors(f"cannot write {folder / proxy}", "give another folder with -o"):
            (folder / VIDEOS).mkdir(exist_ok=True)
            num_bytes = partial.stat().st_size
            partial.replace(folder / proxy)
        write_proxy_entry(folder / facts, index, made.packets)
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
            height=made.look.size[0],
            width=made.look.size[1],
            original_height=index.info.upright_size[0],
            original_width=index.info.upright_size[1],
            gop=made.look.gop,
            codec=made.look.codec,
            psnr=made.psnr,
            ssim=made.ssim,
            lost=tuple(made.packets.lost.tolist()),
            seconds=round((self._clock.now_ns() - began_ns) / 1e9, 3),
        )
        files = ((str(proxy), num_bytes), (str(facts), (folder / facts).stat().st_size))
        return Entry(files=files, facts=asdict(row))
