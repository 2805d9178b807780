"""examples/camera_stream.py in one process and on two ranks."""

import re

import pytest

from examples.running import EXAMPLES, TWO_PROCESSES, changed, run
from loaders.cameras.clips import CAMERAS, write_layout

pytestmark = pytest.mark.slow

SCRIPT = str(EXAMPLES / "camera_stream.py")
LENGTHS = {"a": 9, "b": 6, "c": 8, "d": 7, "e": 5}
FRAMES = sum(LENGTHS.values()) * len(CAMERAS)
WORDS = ("--group_num", "2", "--num_workers", "2", "--size", "32", "48")


@pytest.fixture(scope="module")
def index_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    layout = write_layout(folder / "videos", LENGTHS)
    (folder / "index.json").write_text(layout.to_json(folder))
    return str(folder / "index.json")


def ranks(output):
    """Return {rank: (batches, frames, decoded per delivered)} from the output."""
    found = re.findall(
        r"rank (\d): (\d+) batches, (\d+) frames, [\d.]+ frames/s, decoded / delivered ([\d.]+)",
        output,
    )
    return {int(rank): (int(b), int(f), float(d)) for rank, b, f, d in found}


def repeats(output):
    """Return (frames, repeats) of all ranks from the output."""
    [found] = re.findall(
        r"all ranks: (\d+) frames, (\d+) of them repeats; [\d.]+ frames/s without repeats", output
    )
    return tuple(map(int, found))


def test_one_process_reads_and_decodes_each_frame_once(index_file):
    output = run(SCRIPT, "--index_file", index_file, *WORDS)
    [(_, frames, decoded)] = ranks(output).values()
    assert (frames, decoded) == (FRAMES, 1.0)
    assert repeats(output) == (FRAMES, 0)


def test_two_ranks_read_and_decode_each_frame_once(index_file):
    output = run(*TWO_PROCESSES, SCRIPT, "--index_file", index_file, *WORDS)
    found = ranks(output)
    assert sorted(found) == [0, 1]
    assert len({batches for batches, _, _ in found.values()}) == 1
    assert [decoded for _, _, decoded in found.values()] == [1.0, 1.0]
    assert repeats(output) == (FRAMES, 0)


def test_a_rank_without_a_clip_has_as_many_steps_and_no_frames(tmp_path):
    layout = write_layout(tmp_path / "videos", {"a": 5})
    (tmp_path / "index.json").write_text(layout.to_json(tmp_path))
    index = str(tmp_path / "index.json")
    found = ranks(run(*TWO_PROCESSES, SCRIPT, "--index_file", index, *WORDS))
    assert found == {0: (5, 15, 1.0), 1: (5, 0, 0.0)}


def test_refilled_slots_are_counted_as_repeats_of_all_ranks(index_file):
    output = run(*TWO_PROCESSES, SCRIPT, "--index_file", index_file, *WORDS, "--tail", "refill")
    frames, repeated = repeats(output)
    assert frames == sum(each for _, each, _ in ranks(output).values())
    assert {batches * 2 * len(CAMERAS) for batches, _, _ in ranks(output).values()} == {frames / 2}
    assert repeated == frames - FRAMES > 0


def test_drop_ends_the_epoch_at_the_first_empty_slot(index_file):
    output = run(SCRIPT, "--index_file", index_file, *WORDS, "--tail", "drop")
    [(batches, frames, _)] = ranks(output).values()
    assert frames == batches * 2 * len(CAMERAS) < FRAMES
    assert repeats(output) == (frames, 0)


SOME_NVTX = """
marks = []
class Tool:
    markA = staticmethod(lambda text: None)
    rangePushA = staticmethod(lambda text: marks.append(text))
    rangePop = staticmethod(lambda: marks.append("end"))
torch.cuda.nvtx._nvtx = Tool()
import atexit
atexit.register(lambda: print("marked:", marks[:4]))
"""


def test_nvtx_marks_each_batch_and_step(index_file):
    done = changed(SOME_NVTX, SCRIPT, "--index_file", index_file, *WORDS, "--nvtx")
    assert done.returncode == 0, done.stderr
    assert "marked: ['next batch', 'end', 'step 0', 'end']" in done.stdout


def test_nvtx_runs_or_is_refused_with_the_installed_torch(index_file):
    done = changed("", SCRIPT, "--index_file", index_file, *WORDS, "--nvtx")
    assert done.returncode in (0, 2), done.stderr
    assert (done.returncode == 2) == ("--nvtx needs" in done.stderr)
    assert "Traceback" not in done.stderr
