"""Tables of memory: what they tell of other frames, and how they are kept."""

from dataclasses import replace

from headrace.decode.index_store import IndexStore
from headrace.models.memory_table import MemoryCell, MemoryKey, MemoryTable, MemoryTables

KEY = MemoryKey(
    device="Card A",
    memory_bytes=8 << 30,
    driver="570.1",
    torch="2.9.0",
    model="resnet50",
    precision="float16",
    prep_level="medium",
    input=(3, 224, 224),
)


def cell(height, batch_size, peak_bytes, model_bytes=None):
    size = height, height * 16 // 9
    return MemoryCell(
        size=size, batch_size=batch_size, peak_bytes=peak_bytes, model_bytes=model_bytes
    )


TABLE = MemoryTable(
    key=KEY,
    measured="2026-11-22",
    cells=(cell(360, 1, 10, 5), cell(360, 2, 20, 7), cell(1080, 1, 100, 5), cell(1080, 4, 400)),
)


def test_frames_take_what_the_next_larger_ones_took():
    assert TABLE.of_frames((100, 100)).peaks == {1: 10, 2: 20}
    assert TABLE.of_frames((360, 640)).peaks == {1: 10, 2: 20}
    assert TABLE.of_frames((640, 361)).peaks == {1: 100, 4: 400}
    assert TABLE.of_frames((2160, 3840)) is None


def test_the_model_alone_takes_the_same_whatever_was_decoded():
    assert TABLE.of_model().peaks == {1: 5, 2: 7}
    assert replace(TABLE, cells=(cell(360, 1, 10),)).of_model() is None


def test_what_was_kept_is_loaded_again_and_measured_anew_replaces_it(tmp_path):
    tables = MemoryTables(tmp_path)
    assert tables.load(KEY) is None
    path = tables.keep(KEY, TABLE.cells, "2026-11-22")
    assert tables.load(KEY) == TABLE
    tables.keep(KEY, (cell(360, 2, 25), cell(360, 8, 80)), "2026-11-23")
    found = tables.load(KEY)
    assert found.of_frames((360, 640)).peaks == {1: 10, 2: 25, 8: 80}
    assert found.of_frames((1080, 1920)).peaks == {1: 100, 4: 400}
    assert found.measured == "2026-11-23"
    assert list(tmp_path.iterdir()) == [path], "nothing half-written is left"


def test_each_key_has_a_file_of_its_own(tmp_path):
    tables = MemoryTables(tmp_path)
    tables.keep(KEY, TABLE.cells, "2026-11-22")
    assert tables.load(replace(KEY, driver="571.0")) is None
    assert tables.load(replace(KEY, torch="2.9.1")) is None


def test_a_file_that_was_renamed_is_not_taken_for_another_key(tmp_path):
    tables, other = MemoryTables(tmp_path), replace(KEY, model="vgg16")
    tables.keep(KEY, TABLE.cells, "2026-11-22").rename(tables.entry(other))
    assert tables.load(other) is None


def test_tables_lie_beside_the_indexes(tmp_path):
    assert MemoryTables.beside(IndexStore(tmp_path / "index")).folder == tmp_path / "memory"
    assert MemoryTables.beside(None).folder == MemoryTables().folder
    assert MemoryTables().folder.parent == IndexStore().folder.parent
