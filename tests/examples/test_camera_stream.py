"""The camera example, run as a user runs it, alone and on two ranks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from training.cameras.clips import write_layout

SCRIPT = str(Path(__file__).parents[2] / "examples" / "camera_stream.py")


@pytest.fixture(scope="module")
def index_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    layout = write_layout(folder / "videos", {"a": 9, "b": 6, "c": 8, "d": 7})
    (folder / "index.json").write_text(layout.to_json(folder))
    return str(folder / "index.json")


def ranks(*command):
    """Return {rank: (batches, frames, decoded per delivered)} as the example says."""
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(
        r"rank (\d): (\d+) batches, (\d+) frames, [\d.]+ frames/s, decoded / delivered ([\d.]+)",
        done.stdout,
    )
    return {int(rank): (int(b), int(f), float(d)) for rank, b, f, d in found}


MOST = 1.05
"""A clip that is begun again to fill the last batch may end in the middle of its B-frames."""
WORDS = ("--group_num", "2", "--num_workers", "2", "--size", "32", "48")


def test_it_runs_alone(index_file):
    [(batches, frames, decoded)] = ranks(SCRIPT, "--index_file", index_file, *WORDS).values()
    assert (batches, frames) == (16, 96)
    assert decoded <= MOST


def test_two_ranks_share_the_clips(index_file):
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    found = ranks(*launch, SCRIPT, "--index_file", index_file, *WORDS)
    assert sorted(found) == [0, 1]
    assert len({batches for batches, _, _ in found.values()}) == 1
    assert max(decoded for _, _, decoded in found.values()) <= MOST
