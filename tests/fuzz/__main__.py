"""Coverage-guided fuzzing of headrace with Atheris.

python -m fuzz --seconds 60 --corpus build/fuzz index nal

Each target runs in its own process. Inputs that reach new code are added to the corpus. A failing
input is saved beside the corpus and ends the run with exit status 1.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["headrace"]):
    from fuzz.target import Target, call
    from fuzz.targets import TARGETS

from fuzz.mutate import mutated

_LIMITS = ("-timeout=10", "-rss_limit_mb=3072", "-malloc_limit_mb=1024")


def main() -> None:
    """Fuzz targets one after another, or a single target in this process."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"names: {', '.join(TARGETS)}; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="seconds per target")
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz"), help="folder of inputs")
    parser.add_argument("--here", action="store_true", help="fuzz one target in this process")
    options = parser.parse_args()
    if options.here:
        [name] = options.targets
        _fuzz(TARGETS[name], options.corpus / name, options.seconds)
    failed = []
    for name in options.targets or TARGETS:
        print(f"{name}: {options.seconds} s, corpus {options.corpus / name}", flush=True)
        command = ["--here", name, "--seconds", str(options.seconds), "--corpus", options.corpus]
        if subprocess.run([sys.executable, "-m", "fuzz", *command]).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; the inputs are in {options.corpus}")


def _fuzz(target: Target, corpus: Path, seconds: int) -> None:
    """Fuzz one target; ends the process."""
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)

    def mutator(data: bytes, max_size: int, seed: int) -> bytes:
        random = Random(seed)
        if random.randrange(2):
            return mutated(data, random, target.head)[:max_size]
        return bytes(atheris.Mutate(data, max_size))

    with tempfile.TemporaryDirectory() as folder:
        atheris.Setup(
            [
                *("fuzz", str(corpus), f"-max_total_time={seconds}", "-max_len=65536", *_LIMITS),
                *("-print_final_stats=1", f"-artifact_prefix={corpus}{os.sep}failed-"),
            ],
            lambda data: call(target, target.repaired(data), Path(folder)),
            custom_mutator=mutator,
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
