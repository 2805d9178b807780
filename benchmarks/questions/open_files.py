"""How long does it take to open each file, with a store of indexes that may know it?"""

from pathlib import Path
from time import perf_counter
from typing import Any

from headrace import IndexStore, open_decoder


def answer(*, paths: list[str], store: str) -> dict[str, Any]:
    """Open one after the other; a file that the store knows needs no scan."""
    indexes = IndexStore(Path(store))
    seconds = []
    for path in paths:
        began = perf_counter()
        decoder = open_decoder(path, store=indexes)
        seconds.append(perf_counter() - began)
        decoder.close()
    return {"seconds": seconds}
