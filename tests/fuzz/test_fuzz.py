"""Mutated files are read or refused with a `HeadraceError`, within bounds of memory and time.

The mutations are the same in every run. `make fuzz` tries others.
"""

import resource
import signal
import warnings
from pathlib import Path
from random import Random

import pytest

from forked import exit_code, forked
from fuzz.mutate import mutated
from fuzz.target import Target, call
from fuzz.targets import TARGETS

MEMORY_BYTES = 512 << 20
"""Address space that an input may add to that of the process."""
INPUT_SECONDS, SECONDS = 20, 120
"""Max CPU seconds of an input, and max seconds of a target."""
INPUTS = {
    **{"index": 200, "proxy_entry": 150, "proxy_list": 200, "nal": 2000, "boxes": 500},
    **{"video": 60, "image": 300, "journal": 150, "spill": 60, "session": 12, "lerobot": 80},
    **{"table": 300, "result": 500, "cache": 60},
}
"""Target → number of mutated inputs."""


@pytest.mark.parametrize("name", TARGETS)
def test_a_mutated_file_is_read_or_refused(name, tmp_path):
    target = TARGETS[name]
    seeds = target.seeds()
    assert exit_code(forked(lambda: _run(target, seeds, INPUTS[name], tmp_path))) == 0


def _run(target: Target, seeds: list[bytes], count: int, folder: Path) -> None:
    """Run a target on its seeds and on mutations of them, in this process."""
    warnings.simplefilter("ignore")
    signal.alarm(SECONDS)
    signal.signal(signal.SIGVTALRM, _hang)
    for seed in seeds:
        call(target, target.repaired(seed), folder)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bound = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    for number in range(count):
        signal.setitimer(signal.ITIMER_VIRTUAL, INPUT_SECONDS)
        try:
            call(target, input_of(target, seeds, number), folder)
        except BaseException:
            print(f"input {number}", flush=True)
            raise


def input_of(target: Target, seeds: list[bytes], number: int) -> bytes:
    """Return the mutated seed of a number; one in four keeps its wrong checksums."""
    random = Random(number)
    data = random.choice(seeds)
    for _ in range(random.choice((1, 1, 2, 3))):
        data = mutated(data, random, target.head)
    return target.repaired(data) if number % 4 else data


def _hang(*_: object) -> None:
    raise TimeoutError(f"an input took {INPUT_SECONDS} s")
