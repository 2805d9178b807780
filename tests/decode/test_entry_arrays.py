"""Index entries with valid checksums and inconsistent content."""

import io
import json
import zipfile

import numpy as np
import pytest

from headrace import CacheError, IndexStore, Source
from headrace.decode.proxy_index import read_proxy_entry
from headrace.testing.synth import SynthClip
from tests.surface.kept_states import RECORDED

LARGE = 2**62


@pytest.fixture
def stored(written, tmp_path):
    """Store with the entry of a clip of two GOPs."""
    store = IndexStore(tmp_path / "store")
    source = Source(written(SynthClip(num_frames=24, gop=12)))
    store.load(source)
    return store, source


def rewritten(entry, change):
    """Rewrite an entry; `change` gets its files by name and the parsed header."""
    with zipfile.ZipFile(entry) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    header = json.loads(bytes(np.load(io.BytesIO(members["header.npy"]))))
    changed = change(members, header)
    text = changed if isinstance(changed, bytes) else json.dumps(header).encode()
    members["header.npy"] = as_npy(np.frombuffer(text, np.uint8))
    with zipfile.ZipFile(entry, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def of_array(name, edit):
    """Change an array in place, or replace it by the result of `edit`."""

    def change(members, header):
        array = np.load(io.BytesIO(members[f"{name}.npy"]))
        new = edit(array)
        members[f"{name}.npy"] = as_npy(array if new is None else new)

    return change


def of_header(group, **values):
    return lambda members, header: header[group].update(values)


def of_cell(name, row, column, value):
    return of_array(name, lambda array: array.__setitem__((row, column), value))


def of_text(name, old, new):
    """Change the text before the values of an array."""

    def change(members, header):
        content = members[f"{name}.npy"]
        assert old in content
        members[f"{name}.npy"] = content.replace(old, new.ljust(len(old))[: len(old)], 1)

    return change


CHANGES = {
    "a header that is nested too deeply": lambda members, header: b"[" * 99_999,
    "a header that is a list": lambda members, header: b"[]",
    "a time base of nothing": of_header("info", time_base="1/0"),
    "a time base without ticks": of_header("info", time_base="0"),
    "a time base that takes forever": of_header("info", time_base="1e999999999"),
    "a height that is text": of_header("info", height="96"),
    "frames without end": of_header("info", height=2**31, width=2**31),
    "an orientation of nothing": of_header("info", orientation={"is_transposed": None}),
    "a codec that is a number": of_header("info", codec=264),
    "packets below 0": of_header("index", packets=-1),
    "packets without end": of_header("index", packets=LARGE),
    "packets that are text": of_header("index", packets="24"),
    "no array": lambda members, header: members.update({"frames.npy": b"frames"}),
    "an array missing": lambda members, header: members.pop("gops.npy") and None,
    "an array cut off": lambda m, header: m.update({"signature.npy": m["signature.npy"][:-8]}),
    "a shape without end": of_text("frames", b"(4, 24)", b"(4, 9**9)"),
    "an array of objects": of_text("frames", b"'<i8'", b"'|O' "),
    "a header of an array that does not end": of_text("frames", b"'<i8'", b"(((((("),
    "another dtype": of_array("frames", lambda array: array.astype(np.float64)),
    "one dimension": of_array("frames", lambda array: array[0]),
    "no frames": of_array("frames", lambda array: array[:, :0]),
    "no GOPs": of_array("gops", lambda array: array[:, :0]),
    "times that go back": of_cell("frames", 0, 5, -LARGE),
    "a packet too many": of_cell("frames", 2, 5, 24),
    "a packet below 0": of_cell("frames", 2, 5, -1),
    "a GOP behind the end": of_cell("gops", 0, 1, LARGE),
    "a first GOP that is not at 0": of_cell("gops", 0, 0, 1),
    "GOPs that go back": of_cell("gops", 0, 1, 0),
    "a GOP of no packet": of_cell("gops", 1, 1, LARGE),
    "parameter sets below 0": of_cell("gop_told", 1, 0, -5),
    "parameter sets behind the end": of_cell("gop_told", 1, 1, LARGE),
    "an unknown entry": of_cell("gops", 5, 1, 9),
    "signatures of other packets": of_array("signature", lambda array: array[:-1]),
    "a doubled packet that is not there": of_array("doubled", lambda _: np.array([LARGE])),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_inconsistent_entry_is_rebuilt(stored, change):
    store, source = stored
    whole = store.find(source)
    rewritten(store.entry(source), change)
    assert store.find(source) is None
    assert store.counters.damaged == 1
    assert np.array_equal(store.load(source).pts, whole.pts)


def test_an_entry_that_lists_more_bytes_than_the_file_has_is_rebuilt(stored):
    store, source = stored
    entry = store.entry(source)
    content = bytearray(entry.read_bytes())
    at = content.index(b"PK\1\2")
    for size in (20, 24):
        content[at + size : at + size + 4] = (2**31).to_bytes(4, "little")
    entry.write_bytes(content)
    assert store.find(source) is None


OF_PROXIES = {
    "a size of text": of_header("proxy", size=["48", "64"]),
    "a size of one number": of_header("proxy", size=[48]),
    "a colour of lists": of_header("proxy", colour=[[1], [2]]),
    "no packets": of_array("packets", lambda array: array[:, :0]),
    "checksums missing": of_array("packets", lambda array: array[:3]),
}


@pytest.mark.parametrize("change", OF_PROXIES.values(), ids=OF_PROXIES)
def test_an_inconsistent_proxy_entry_is_refused(tmp_path, change):
    entry = tmp_path / "a.npz"
    entry.write_bytes((RECORDED / "proxies" / "videos" / "a.npz").read_bytes())
    source = Source("a.mp4")
    assert len(read_proxy_entry(entry, source)[0]) == 36
    rewritten(entry, change)
    with pytest.raises(CacheError, match="copy it again"):
        read_proxy_entry(entry, source)
