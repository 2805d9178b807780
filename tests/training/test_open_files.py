"""Files stay open in proportion to the memory there is, and never too many."""

import pytest

from headrace.decode.index_store import IndexStore
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.loader import FrameLoader
from headrace.training.open_files import max_open_files


@pytest.mark.parametrize(
    ("budget", "files"), [(1, 1), (2**20, 1), (2**28, 22), (2**30, 89), (2**31, 128), (2**40, 128)]
)
def test_open_files_take_up_to_a_sixteenth_of_the_budget(budget, files):
    assert max_open_files(budget) == files


def test_a_loader_with_room_for_one_file_opens_them_again_and_again(tmp_path):
    videos = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12)) for k in range(3)]
    opens = {}
    for budget in ("1MiB", "64MiB"):
        with FrameLoader(
            videos,
            batch_size=6,
            size=(16, 16),
            memory_budget=budget,
            lookahead=1,
            workers=1,
            store=IndexStore(tmp_path / "index"),
        ) as loader:
            for _ in loader:
                pass
            opens[budget] = loader.statistics.opens
    assert opens["1MiB"] > opens["64MiB"] == 3
