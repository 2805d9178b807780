"""Opens the files it is given and prints the seconds each took, as a JSON list."""

import json
import sys
from time import perf_counter

from headrace.decode.open import open_decoder


def main() -> None:
    """One open after the other; a file that the index store knows needs no scan."""
    seconds = []
    for path in sys.argv[1:]:
        began = perf_counter()
        decoder = open_decoder(path)
        seconds.append(perf_counter() - began)
        decoder.close()
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
