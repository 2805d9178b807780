"""A cache in a file: bounded, shared by processes, and usable despite damage of the file."""

import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cache.made import arrays, cached, key, results
from headrace.cache.cache_url import FILE, Cache, open_cache
from headrace.cache.sqlite_file import shared_file_system
from headrace.cache.sqlite_store import TOUCH_SECONDS, SqliteStore
from headrace.errors import CacheError, ConfigError
from sinks.made import disk_full_after

TESTS = Path(__file__).parents[1]
WHERE = "chunks.sqlite"
ALL = list(range(8))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "of" / "mine" / WHERE


@pytest.fixture
def store(path, clock):
    store = SqliteStore(path, bound_bytes=200_000, clock=clock)
    yield store
    store.close()


@pytest.fixture
def filled(path):
    """Return the path of a cache with eight results."""
    fill(path)
    return path


def fill(path: Path, chunks: range = range(8), width: int = 16) -> None:
    with Cache(SqliteStore(path)) as cache:
        cache.put(results(chunks, width=width))
        assert cache.counters.stored == len(chunks)


def cached_in(path: Path, chunks: range = range(8)) -> list[int]:
    with Cache(SqliteStore(path)) as cache:
        return cached(cache, chunks)


def digests(chunks) -> list[str]:
    return [key(k).digest for k in chunks]


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(statement)


def without_pages(content: bytes) -> bytes:
    """Return the content with all pages overwritten except the first, which identifies the file."""
    return content[:16384] + b"\xa5" * (len(content) - 16384)


def test_results_survive_their_process(filled):
    assert cached_in(filled) == ALL
    assert cached_in(filled, range(8, 12)) == []
    assert filled.parent.stat().st_mode & 0o777 == 0o700


def test_the_state_has_entries_bytes_bound_and_use(filled):
    cached_in(filled, range(4, 12))
    store = SqliteStore(filled)
    state = store.state()
    sizes = sum(info.size_bytes for info in store.list_entries())
    store.close()
    assert (state.where, state.entries, state.size_bytes) == (str(filled), 8, sizes)
    assert (state.hits, state.misses, state.bound_bytes) == (4, 4, 10 << 30)


def test_an_entry_stored_again_is_replaced(filled, store):
    fill(filled)
    store.put({key(0).digest: b"short"})
    assert store.get([key(0).digest]) == {key(0).digest: b"short"}
    assert store.state().entries == 8
    assert store.state().size_bytes == sum(info.size_bytes for info in store.list_entries())


def test_above_the_bound_the_least_recently_used_entries_are_evicted(store, clock):
    for digest in digests(range(150)):
        store.put({digest: bytes(1000)})
        clock.advance(1)
    store.get([key(0).digest])
    clock.advance(TOUCH_SECONDS)
    store.get([key(1).digest])  # records both uses: the interval is over
    clock.advance(1)
    store.put(dict.fromkeys(digests(range(150, 210)), bytes(1000)))
    left = {info.digest for info in store.list_entries()}
    assert len(left) <= 180
    assert store.state().size_bytes == 1000 * len(left)
    assert {*digests((0, 1, *range(150, 210)))} <= left
    assert key(2).digest not in left


def test_reading_rarely_writes(filled, store, clock):
    store.open()
    sqlite = store._file.sqlite
    before = sqlite.total_changes
    for digest in digests(ALL):
        store.get([digest])
    assert sqlite.total_changes == before
    clock.advance(TOUCH_SECONDS)
    store.get([key(0).digest])
    assert sqlite.total_changes > before


def test_a_bound_is_stored_in_the_file(path):
    for bound_bytes, expected in ((1 << 20, 1 << 20), (None, 1 << 20), (1 << 21, 1 << 21)):
        store = SqliteStore(path, bound_bytes=bound_bytes)
        assert store.state().bound_bytes == expected
        store.close()


def test_removing_entries_shrinks_the_file(path):
    fill(path, range(30), width=10_000)
    size = path.stat().st_size
    store = SqliteStore(path)
    store.remove(digests(range(29)))
    assert [info.digest for info in store.list_entries()] == [key(29).digest]
    store.close()
    assert path.stat().st_size < size / 4


IMPORTS = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
from cache.made import arrays, key
from headrace.cache.cache_url import Cache
from headrace.cache.sqlite_store import SqliteStore
path = Path(sys.argv[1])
"""
WRITER = """
first = int(sys.argv[2])
input()
with Cache(SqliteStore(path, busy_seconds=60)) as cache:
    for k in range(first, first + 40):
        cache.put({key(k): arrays(k)})
        assert key(k) in cache.get([key(k)])
print(cache.counters.stored, cache.counters.hits, cache.warnings)
"""
HOLDER = """
store = SqliteStore(path)
store.open()
sqlite = store._file.sqlite
sqlite.execute("PRAGMA cache_size = 1")  # writes go to the file at once
sqlite.execute("BEGIN IMMEDIATE")
for k in range(100, 140):
    sqlite.execute("INSERT INTO entries VALUES (?, ?, 0, 5)", (k, bytes.fromhex(key(k).digest)))
    sqlite.execute("INSERT INTO bodies VALUES (?, ?)", (k, bytes(100_000)))
print("inside", flush=True)
input()
"""
READER = """
if os.geteuid() == 0:
    os.setuid(65534)
with Cache(SqliteStore(path)) as cache:
    hits = cache.get([key(0)])
    cache.put({key(50): arrays(50)})
print(len(hits), cache.counters.stored)
print(*cache.warnings, sep="\\n")
"""


@contextmanager
def child(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run `code` in a Python process, which is killed at the end of the block."""
    command = [sys.executable, "-c", IMPORTS + code, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_two_processes_can_create_and_fill_one_file(path):
    with child(WRITER, path, 0) as first, child(WRITER, path, 20) as second:
        for process in (first, second):
            process.stdin.write("\n")
            process.stdin.flush()
        ends = [process.communicate()[0] for process in (first, second)]
    assert ends == ["40 40 []\n"] * 2
    assert cached_in(path, range(60)) == list(range(60))


def test_a_process_killed_in_a_transaction_leaves_the_earlier_content(filled, store):
    with child(HOLDER, filled) as process:
        assert process.stdout.readline() == "inside\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert cached_in(filled) == ALL
    fill(filled, range(100, 104))
    assert store.state().entries == 12
    assert store._file.sqlite.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_while_another_process_writes_reads_work_and_lost_writes_are_counted(filled, clock):
    with child(HOLDER, filled) as process:
        assert process.stdout.readline() == "inside\n"
        with Cache(SqliteStore(filled, busy_seconds=0.01), clock=clock) as cache:
            for _ in range(5):
                assert cached(cache) == ALL
                cache.put({key(9): arrays(9)})
            assert (cache.counters.unstored, cache.counters.errors) == (5, 3)
        [warning] = cache.warnings
        assert "database is locked" in warning
        process.communicate("\n")
    assert cached_in(filled, range(12)) == ALL


HEADERS = [b"\0" * 100, b"\xff" * 100, b"no header" * 11, bytes(range(100))]
DAMAGES = [
    without_pages,
    *(lambda content, header=header: header + content[100:] for header in HEADERS),
    lambda content: content[:68] + b"oops" + content[72:],
]


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM totals", "UPDATE totals SET hits = NULL", "UPDATE totals SET bytes = x'ff'"],
)
def test_a_file_with_invalid_totals_is_renamed(filled, change):
    execute(filled, change)
    with Cache(SqliteStore(filled)) as cache:
        assert cache.get([key(0)]) == {}
    assert "it was renamed to" in cache.warnings[0]


def test_an_entry_of_another_type_is_not_listed(filled):
    execute(filled, "INSERT INTO entries (digest, used, bytes) VALUES ('text', 'soon', 1)")
    with closing(SqliteStore(filled)) as store:
        assert len(list(store.list_entries())) == len(ALL)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_renamed_and_created_again(filled, damage):
    content = damage(filled.read_bytes())
    filled.write_bytes(content)
    with Cache(SqliteStore(filled)) as cache:
        assert cache.get([key(0)]) == {}
        cache.put(results())
        assert cached(cache) == ALL
    [warning] = cache.warnings
    assert f"{filled} was damaged; it was renamed to {filled}.damaged" in warning
    assert filled.with_name(WHERE + ".damaged").read_bytes() == content
    assert cached_in(filled) == ALL


def test_damage_during_a_run_costs_only_the_file(path):
    with Cache(SqliteStore(path)) as cache:
        cache.put(results(width=5000))
        cache._store._file.sqlite.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        cache._store._file.sqlite.execute("PRAGMA cache_size = 0")
        path.write_bytes(without_pages(path.read_bytes()))
        for _ in range(3):
            cached(cache, width=5000)
            cache.put(results(width=5000))
        assert cached(cache, width=5000) == ALL
        assert len(cache.warnings) == 1


def test_an_invalid_file_in_the_user_s_cache_folder_counts_as_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "headrace" / FILE
    path.parent.mkdir()
    path.write_bytes(b"\0" * 5000)
    with open_cache() as cache:
        cache.put({key(): arrays()})
        assert list(cache.get([key()])) == [key()]
    assert f"it was renamed to {path}.damaged" in cache.warnings[0]


def test_a_file_of_another_program_is_refused_and_unchanged(tmp_path):
    video, notes = tmp_path / "video.mp4", tmp_path / "notes.sqlite"
    video.write_bytes(b"\0" * 5000)
    execute(notes, "CREATE TABLE a (b)")
    for file in (video, notes):
        content = file.read_bytes()
        with pytest.raises(ConfigError, match="is not a headrace cache"):
            open_cache(str(file))
        assert file.read_bytes() == content


def test_a_file_of_another_layout_is_refused(filled):
    execute(filled, "PRAGMA user_version = 7")
    with pytest.raises(ConfigError, match="has layout 7, this headrace reads 1"):
        Cache(SqliteStore(filled))


def test_on_a_full_disk_results_are_not_stored_and_reading_works(filled, clock):
    with Cache(SqliteStore(filled), clock=clock) as cache:
        with disk_full_after(filled.stat().st_size):
            for _ in range(5):
                cache.put(results(range(100, 104), width=50_000))
                assert cached(cache) == ALL
        assert (cache.counters.unstored, cache.counters.errors) == (20, 3)
        [warning] = cache.warnings
        assert "cannot be written" in warning
    assert cached_in(filled) == ALL


@pytest.mark.parametrize(
    "place", ["/proc/headrace/x.sqlite", "/proc/x.sqlite", "/dev/null/x.sqlite"]
)
def test_an_unwritable_path_causes_only_misses(place, clock):
    """These paths are unwritable for root, too."""
    with Cache(SqliteStore(Path(place)), clock=clock) as cache:
        for k in range(5):
            cache.put(results([k]))
            assert cache.get([key(k)]) == {}
    assert (cache.counters.misses, cache.counters.unstored) == (5, 5)
    [warning] = cache.warnings
    assert place in warning


def test_a_read_only_folder_causes_a_miss_and_a_warning():
    """SQLite cannot create its files beside the database."""
    # Not in the folder of the tests, to which other users have no access.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / WHERE
        fill(path)
        Path(folder).chmod(0o555)
        with child(READER, path) as process:
            answer, _ = process.communicate("")
        Path(folder).chmod(0o755)
        counters, warning = answer.splitlines()
        assert counters == "0 0"
        assert warning.startswith(f"the cache failed: {path} cannot be opened: ")
        assert cached_in(path) == ALL


def test_shared_file_systems_are_detected():
    mounts = [("/", "ext4"), ("/data", "xfs"), ("/data/lab", "nfs4"), ("/home", "btrfs")]
    places = {"/data/lab": "nfs4", "/data": None, "/home/me": None, "/database": None}
    for place, kind in places.items():
        assert shared_file_system(Path(place, "x.sqlite"), mounts) == kind


def test_a_closed_store_may_be_used_again(store):
    store.put({key().digest: b"x"})
    store.close()
    assert store.get([key().digest]) == {key().digest: b"x"}
    store.close()
    store.close()


def test_an_unreachable_store_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match=r"cannot be opened: .* is a file, not a folder"):
        SqliteStore(tmp_path / "file" / "x.sqlite").state()


def test_closing_a_store_after_a_failure_raises_nothing(store):
    store.put({key().digest: b"content"})
    store.get([key().digest])
    with pytest.raises(CacheError), store._open().errors_as("read"):
        raise sqlite3.OperationalError("disk I/O error")
    store.close()
