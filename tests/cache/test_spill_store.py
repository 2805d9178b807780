"""A store of packed frames: bounded, shared by processes, and never wrong, despite damage."""

import os
import random
import re
import select
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from forked import exit_code, forked, in_a_fork
from headrace.cache import spill_store
from headrace.cache.spill_folder import RECORD
from headrace.cache.spill_store import IN_USE_SECONDS, MIN_BUDGET, REFRESH_SECONDS, SpillStore
from headrace.errors import ConfigError
from headrace.runtime.posix import file_lock
from headrace.testing.fake_clock import FakeClock
from sinks.made import disk_full_after

BUDGET = 8 << 20
HALF_MB = 500_000


def payload(frame: int, size: int = 100) -> bytes:
    return (bytes((frame * 7 + k) % 251 for k in range(251)) * (1 + size // 251))[:size]


def payloads(*frames: int, size: int = 100) -> dict[int, bytes]:
    return {frame: payload(frame, size) for frame in frames}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "of" / "mine"


@pytest.fixture
def store(folder, clock):
    return opened(folder, clock)


def opened(folder: Path, clock: FakeClock, budget: int | None = BUDGET) -> SpillStore:
    return SpillStore.open(folder, budget=budget, clock=clock)


def frames_in(store: SpillStore, stream: str = "a", count: int = 300) -> list[int]:
    """Return the frames in the store, after a check of their payloads."""
    mask = store.stored(stream, count)
    assert mask.shape == (count,)
    frames = mask.nonzero()[0].tolist()
    for frame in frames:
        content = store.read(stream, frame)
        assert content == payload(frame, len(content or b""))
    return frames


def files(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.glob(f"*.{kind}"))


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for kind in ("frames", "index") for path in files(folder, kind))


def test_written_frames_are_read_by_the_next_run(store, folder, clock):
    store.write("a", payloads(0, 5, 63, 64, 200))
    store.write("b", payloads(5))
    store.close()
    again = opened(folder, clock, budget=None)
    assert [frames_in(again, stream) for stream in "abc"] == [[0, 5, 63, 64, 200], [5], []]
    counts = (0, 5, 6, 64, 65, 10_000)
    assert [again.stored("a", count).sum() for count in counts] == [0, 1, 2, 3, 4, 5]
    assert again.read("a", 1) is again.read("c", 0) is again.read("a", 2**32 - 1) is None
    assert (again.state().hits, again.state().misses) == (6, 3)


def test_the_state_counts(store, folder):
    store.write("a", payloads(0, 1))
    store.write("b", payloads(0))
    state = store.state()
    assert (state.frames, state.streams, state.segments, state.written) == (3, 2, 1, 3)
    assert (state.where, state.budget_bytes) == (str(folder), BUDGET)
    assert state.size_bytes == size_of(folder) == 3 * (len(payload(0)) + RECORD.itemsize)


def test_existing_frames_are_not_overwritten(store, folder):
    store.write("a", {0: payload(0)})
    size = size_of(folder)
    store.write("a", {0: b"other"})
    assert frames_in(store) == [0]
    assert size_of(folder) == size


def test_only_the_owner_has_access(store, folder):
    store.write("a", payloads(0))
    modes = {path.name[-6:]: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert set(modes.values()) == {0o600}
    assert len(modes) == 4
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_in_a_folder_with_group_access_the_group_has_access(folder, clock):
    folder.mkdir(parents=True)
    folder.chmod(0o770)
    opened(folder, clock).write("a", payloads(0))
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o660}


def test_frames_of_another_process_are_found_soon(store, folder, clock):
    other = opened(folder, clock)
    assert frames_in(other) == []
    assert in_a_fork(lambda: store.write("a", payloads(0)) is None and frames_in(store) == [0])
    assert frames_in(other) == []
    clock.advance(REFRESH_SECONDS)
    assert frames_in(other) == [0]
    # A writer refreshes first, so that no frame is written twice.
    store.write("a", payloads(1))
    other.write("a", payloads(0, 1, 2))
    assert frames_in(other) == [0, 1, 2]
    assert size_of(folder) == 3 * (len(payload(0)) + RECORD.itemsize)


def test_threads_can_write_and_read_concurrently(store):
    def work(first: int) -> None:
        for frame in range(first, 120):
            store.write("a", payloads(frame, frame + 1, size=5000))
            assert store.read("a", frame) == payload(frame, 5000)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(work, (0, 40, 80)))
    assert frames_in(store) == list(range(121))
    assert store.state().written == 121
    assert store.warnings == []


def test_a_fork_while_the_lock_is_held_does_not_keep_it(store, folder):
    with file_lock(store._folder.lock_path) as is_held, store._table_lock, store._write_lock:
        assert is_held
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.read(reading, 1)
            os._exit(0)
    store.write("a", payloads(0))  # the child has the lock file open
    os.write(writing, b"x")
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)
    assert frames_in(store) == [0]


def test_the_least_recently_used_segment_is_evicted_first(store, folder, clock):
    for frame in range(16):  # two fill a segment
        store.write("a", payloads(frame, size=HALF_MB))
        clock.advance(1)
    assert frames_in(store) == list(range(16))
    clock.advance(IN_USE_SECONDS)
    assert store.read("a", 0)
    store.write("a", payloads(20, 21, 22, size=HALF_MB))
    assert frames_in(store) == [0, 1, *range(6, 16), 20, 21, 22]
    assert store.state().evicted == 4
    assert size_of(folder) <= BUDGET


def test_a_full_store_keeps_segments_in_use(store, folder, clock):
    for frame in range(30):
        store.write("a", payloads(frame, size=HALF_MB))
    assert frames_in(store) == list(range(16))
    assert store.state().refused == {"full": 3, "paused after failures": 11}
    assert not store.takes_frames
    assert len(store.warnings) == 1
    assert "refuses frames: full" in store.warnings[0]
    clock.advance(IN_USE_SECONDS)
    assert store.takes_frames


@pytest.mark.parametrize("budget", [MIN_BUDGET, 2 * MIN_BUDGET, BUDGET // 2])
def test_a_process_evicts_down_to_its_own_budget(store, folder, clock, budget):
    store.write("a", payloads(*range(16), size=HALF_MB))
    other = opened(folder, clock, budget=budget)
    assert frames_in(other) == list(range(16))
    other.write("a", payloads(20, size=HALF_MB))
    assert 20 in frames_in(other)
    assert HALF_MB <= size_of(folder) <= budget
    assert opened(folder, clock, budget=None).state().budget_bytes == budget


@pytest.mark.parametrize("size", [80_000, 500_000])
def test_the_smallest_budget_keeps_what_fits(folder, clock, size):
    store = opened(folder, clock, MIN_BUDGET)
    store.write("a", payloads(*range(12), size=size))
    assert frames_in(store) == list(range(min(12, MIN_BUDGET // size)))
    assert size_of(folder) <= MIN_BUDGET


@pytest.mark.parametrize("sizes", [[3 << 20], [100, 3 << 20, 100], [700_000] * 4, [1] * 2000])
def test_frames_of_all_sizes_are_stored(store, folder, sizes):
    """A segment has 1 MiB."""
    store.write("a", {k: payload(k, size) for k, size in enumerate(sizes)})
    assert frames_in(store, count=len(sizes)) == list(range(len(sizes)))


def test_empty_frames_and_frames_above_half_the_budget_are_refused(store):
    store.write("a", {0: b"", 1: bytes(BUDGET // 2 + 1), 2: payload(2), 3: bytes(2 * BUDGET)})
    assert frames_in(store) == [2]
    assert store.state().refused == {"empty, or above 4,194,304 bytes": 3}
    assert store.takes_frames


def rewrite(path: Path, content: bytes) -> None:
    """Rewrite a file in place: a file truncated to zero would be flushed to disk on close."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    rewrite(path, content)


TWO = {0: b"first", 1: b"second"}


@pytest.mark.parametrize("kind", ["frames", "index"])
def test_each_flipped_bit_costs_one_frame_and_is_counted(store, folder, clock, kind):
    store.write("a", TWO)
    originals = {path: path.read_bytes() for path in files(folder, "*")}
    [path] = files(folder, kind)
    for bit in range(len(originals[path]) * 8):
        flip(path, bit)
        other = opened(folder, clock)
        read = [other.read("a", frame) for frame in TWO]
        assert read in ([None, b"second"], [b"first", None]), bit
        assert other.state().damaged == len(other.warnings) == 1
        other.write("a", TWO)
        assert [other.read("a", frame) for frame in TWO] == [*TWO.values()]
        for original, content in originals.items():
            rewrite(original, content)


def cut(share: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def fill(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content * (path.stat().st_size // len(content)))


DAMAGES = {
    **{f"cut to {share}": cut(share) for share in (0, 0.3, 0.5, 0.99)},
    "zeros": fill(b"\0"),
    "ones": fill(b"\xff"),
    "noise": fill(bytes(range(1, 100))),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\xa5" * 777),
    "far longer": lambda path: os.truncate(path, 1 << 40),
    "gone": Path.unlink,
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: path.symlink_to(path.rename(path.with_suffix(".elsewhere"))),
}


@pytest.mark.parametrize("kind", ["frames", "index"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_open", [True, False])
def test_damaged_files_give_no_wrong_frames_and_can_be_written(
    store, folder, clock, kind, damage, is_open
):
    store.write("a", payloads(*range(20), size=5000))
    [path] = files(folder, kind)
    DAMAGES[damage](path)
    if not is_open:
        store = opened(folder, clock)
    for _ in range(2):
        for frame in range(20):
            assert store.read("a", frame) in (None, payload(frame, 5000))
        clock.advance(REFRESH_SECONDS)
    clock.advance(2 * IN_USE_SECONDS)
    store.write("b", payloads(*range(20), size=5000))
    clock.advance(REFRESH_SECONDS)
    frames_in(store, "a")
    if damage not in ("a folder", "a link", "far longer"):
        assert frames_in(store, "b") == frames_in(opened(folder, clock), "b") == list(range(20))
    assert len(store.warnings) <= 2


def test_damaged_frames_cause_one_warning_and_are_written_again(store, folder, clock):
    warnings: list[str] = []
    store.write("a", payloads(*range(20)))
    cut(0.5)(files(folder, "frames")[0])
    other = SpillStore.open(folder, budget=BUDGET, clock=clock, on_warning=warnings.append)
    expected = [*payloads(*range(10)).values(), *[None] * 10]
    for reader in (store, other):
        assert [reader.read("a", frame) for frame in range(20)] == expected
        assert reader.state().damaged == 10
    assert warnings == other.warnings
    assert len(warnings) == 1
    store.write("a", payloads(*range(20)))
    assert frames_in(store) == frames_in(opened(folder, clock)) == list(range(20))


@pytest.mark.parametrize(
    "content", ["", "{}", "[", '{"budget": "x"}', '{"budget": -5}', "[" * 9999]
)
def test_a_damaged_marker_is_rewritten(store, folder, clock, content):
    store.write("a", payloads(0))
    (folder / "headrace-spill-1.json").write_text(content)
    other = opened(folder, clock)
    assert len(other.warnings) == 1
    assert frames_in(other) == [0]
    assert opened(folder, clock, budget=None).warnings == []


def test_foreign_files_are_left_unchanged(store, folder, clock):
    others = ["notes.txt", "12.frames", "00000000000000zz.index", "0000000000000001.index.bak"]
    for name in others:
        (folder / name).write_bytes(b"x" * 100)
    store.write("a", payloads(*range(20), size=HALF_MB))
    assert opened(folder, clock, MIN_BUDGET).write("a", payloads(99, size=HALF_MB)) is None
    assert [(folder / name).read_bytes() for name in others] == [b"x" * 100] * 4


def test_a_store_created_concurrently_is_opened(folder, clock, monkeypatch):
    """A folder listing is not atomic: it may have later files without the marker."""
    opened(folder, clock, MIN_BUDGET)
    monkeypatch.setattr(Path, "iterdir", lambda path: iter([path / "lock"]))
    store = opened(folder, clock, MIN_BUDGET)
    store.write("a", payloads(1))
    assert store.stored("a", 2).tolist() == [False, True]


def newer(folder: Path) -> None:
    (folder / "headrace-spill-7.json").write_text("{}")


REFUSED: dict[str, tuple[Callable[[Path], object], int | None, str]] = {
    "newer": (newer, BUDGET, "has format 7, this headrace reads 1"),
    "other": (
        lambda folder: (folder / "a.mp4").touch(),
        BUDGET,
        "not a spill store, and not empty",
    ),
    "empty": (lambda folder: None, None, "is not a spill store: it is empty"),
    "missing": (Path.rmdir, None, "no such file or directory"),
    "a file": (lambda folder: (folder.rmdir(), folder.touch()), BUDGET, "file exists"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_folder_that_is_not_a_store_is_refused_on_opening(folder, clock, case):
    prepare, budget, message = REFUSED[case]
    folder.mkdir(parents=True)
    prepare(folder)
    before = sorted(folder.parent.rglob("*"))
    with pytest.raises(ConfigError, match=re.escape(message)):
        opened(folder, clock, budget)
    assert sorted(folder.parent.rglob("*")) == before


def test_on_a_full_disk_frames_are_refused_and_reading_works(store, folder, clock):
    store.write("a", payloads(*range(10), size=5000))
    size = size_of(folder)
    with disk_full_after(size + 7000):
        for frame in range(10, 20, 2):
            store.write("a", payloads(frame, frame + 1, size=5000))
            assert frames_in(store) == list(range(10))
    assert size_of(folder) == size
    assert sum(store.state().refused.values()) == 10
    assert len(store.warnings) == 1
    clock.advance(60)
    store.write("a", payloads(10))
    assert frames_in(store) == list(range(11))


def test_a_folder_removed_during_a_run_causes_one_warning_of_each_kind(store, folder, clock):
    store.write("a", payloads(*range(10)))
    shutil.rmtree(folder)
    assert store.read("a", 3) is None
    clock.advance(REFRESH_SECONDS)
    for frame in range(5):
        store.write("b", payloads(frame))
        assert store.read("b", frame) is None
        assert frames_in(store) == []
    assert store.state().refused == {"no such file or directory": 3, "paused after failures": 2}
    assert [store.where in warning for warning in store.warnings] == [True, True]
    assert not folder.exists()


def test_a_read_only_folder_is_read(clock):
    with tempfile.TemporaryDirectory() as name:  # other users have access here
        folder = Path(name)
        folder.chmod(0o755)
        opened(folder, clock).write("a", payloads(0, 1))
        folder.chmod(0o555)

        def reads() -> bool:
            if os.geteuid() == 0:
                os.setuid(65534)
            store = opened(folder, clock, 2 * BUDGET)
            store.write("a", payloads(2))
            is_refused = store.state().refused == {"permission denied": 1}
            return is_refused and frames_in(store) == [0, 1] and len(store.warnings) == 1

        assert in_a_fork(reads)
        folder.chmod(0o755)


def test_a_process_that_never_releases_the_lock_costs_frames(store, monkeypatch):
    monkeypatch.setattr("headrace.cache.spill_store._LOCK_SECONDS", 0.01)
    with file_lock(store._folder.lock_path):
        store.write("a", payloads(0))
        assert store.stored("a", 1).tolist() == [False]
    assert store.state().refused == {"another process holds the lock": 1}


def write_forever(folder, number, has_opened):
    spill_store.IN_USE_SECONDS = 0.0  # evict all the time
    store = SpillStore.open(folder, budget=4 << 20)
    os.write(has_opened, b".")
    while True:
        for frame in range(0, 3000, 6):
            frames = range(frame, frame + 6)
            content = {f: bytes([(f + number) % 251]) * (20_000 + f) for f in frames}
            store.write(f"stream {number}", content)
        number += 2


@pytest.mark.slow
def test_writers_killed_at_any_moment_leave_a_valid_store(folder):
    """Twenty rounds: two processes write and evict; each is killed at a random moment."""
    draw = random.Random(0)
    killed = 0
    opened, has_opened = os.pipe()
    for turn in range(20):
        numbers = (2 * turn, 2 * turn + 1)
        writers = [forked(partial(write_forever, folder, k, has_opened)) for k in numbers]
        for _ in writers:
            assert os.read(opened, 1) == b"."
        store = SpillStore.open(folder, budget=4 << 20)
        for writer in writers:
            select.select([], [], [], draw.uniform(0, 0.1))
            os.kill(writer, signal.SIGKILL)
            assert exit_code(writer) == -signal.SIGKILL
            killed += 1
            store._refresh(now=True)
            for stream in range(2 * turn + 4):
                for frame in store.stored(f"stream {stream}", 3000).nonzero()[0].tolist():
                    content = store.read(f"stream {stream}", frame)
                    assert content in (None, bytes([(frame + stream) % 251]) * (20_000 + frame))
        state = store.state()
        assert state.damaged == 0
        assert state.frames > 20
        assert size_of(folder) <= 4 << 20
    os.close(opened)
    os.close(has_opened)
    assert killed == 40
