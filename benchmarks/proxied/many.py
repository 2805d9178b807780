"""A few videos as very many files: hard links under other names, with what is known of each."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.decode.index_store import IndexStore
from headrace.decode.proxy_rows import VIDEOS, read_rows, write_rows
from headrace.video.source import Source


def many_videos(few: Sequence[Path], folder: Path, count: int, store: IndexStore) -> list[Path]:
    """Link `count` videos into `folder`, each in the store, as if all had been scanned."""
    folder.mkdir(parents=True)
    entries = []
    for path in few:
        store.load(Source(path))
        entries.append(store.entry(Source(path)))
    found = [folder / f"{number:04}.mp4" for number in range(count)]
    for number, path in enumerate(found):
        os.link(few[number % len(few)].resolve(), path)
        os.link(entries[number % len(few)], store.entry(Source(path)))
    return found


def many_proxies(few: Path, folder: Path, videos: Sequence[Path]) -> Path:
    """Link the proxies of a few videos as those of `videos`, which are links of them in turn."""
    rows = list(read_rows(few))
    (folder / VIDEOS).mkdir(parents=True)
    found = []
    for number, video in enumerate(videos):
        row = rows[number % len(rows)]
        linked = replace(
            row, path=str(video.absolute()), name=video.stem, proxy=f"{VIDEOS}/{video.stem}.mp4"
        )
        for suffix in (".mp4", ".npz"):
            known = (few / row.proxy).with_suffix(suffix)
            os.link(known, (folder / linked.proxy).with_suffix(suffix))
        found.append(linked)
    write_rows(folder, found)
    return folder
