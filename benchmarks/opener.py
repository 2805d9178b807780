"""Opens files with a store of indexes and prints the seconds each took, as a JSON list.

python -m benchmarks.opener STORE FILE...
"""

import json
import sys
from pathlib import Path
from time import perf_counter

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder


def main() -> None:
    """One open after the other; a file that the store knows needs no scan."""
    folder, *paths = sys.argv[1:]
    store = IndexStore(Path(folder))
    seconds = []
    for path in paths:
        began = perf_counter()
        decoder = open_decoder(path, store=store)
        seconds.append(perf_counter() - began)
        decoder.close()
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
