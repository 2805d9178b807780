"""`headrace profile -- torchrun` profiles each rank, and names the late one."""

import json
import sys

import pytest

from cli.kit import profiled
from headrace.cli.profile import Launch, find_launch
from headrace.errors import ConfigError

TRAIN = """
import hashlib, os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

def work(ms):
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        hashlib.sha256(bytes(4096)).digest()

class Numbers(Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, index):
        work(float(sys.argv[1]) if dist.get_rank() == 1 else 0.1)
        return torch.ones(8)

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 1))
for batch in DataLoader(Numbers(), 2):
    model(batch).sum().backward()
    if dist.get_rank() == 1:
        work(float(sys.argv[2]))
os.write(1, f"rank {dist.get_rank()} ended\\n".encode())  # in one piece
dist.destroy_process_group()
if len(sys.argv) > 3:
    sys.exit(int(sys.argv[3]))
"""
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]


LAUNCHES = {
    **dict.fromkeys(("python train.py", "python -m train"), None),
    "torchrun --nproc-per-node 2 | train.py --lr 1": ("file", "train.py", ("--lr", "1")),
    "python3 -m torch.distributed.run --standalone | --mod a.b -m": ("module", "a.b", ("-m",)),
}
"""Command, with | after the arguments of torchrun -> expected rest of the launch."""


@pytest.mark.parametrize("line", LAUNCHES)
def test_a_launch_is_parsed_like_torchrun_does(line, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    launcher, rest = line.partition(" | ")[0].split(), LAUNCHES[line]
    expected = None if rest is None else Launch(tuple(launcher), *rest)
    assert find_launch(line.replace(" |", "").split()) == expected


def test_an_invalid_launch_is_an_error() -> None:
    with pytest.raises(ConfigError, match="cannot profile --no-python"):
        find_launch(["torchrun", "--no-python", "train.sh"])
    with pytest.raises(ConfigError, match=r"cannot profile 'missing\.py': no such file"):
        find_launch(["torchrun", "missing.py"])
    with pytest.raises(ConfigError, match="torchrun cannot parse '--nproc-per-node'"):
        find_launch(["torchrun", "--nproc-per-node"])


@pytest.fixture
def profile(tmp_path):
    """Return a function: arguments of the script -> result of its profile on two ranks."""
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    words = ("--json", "ranks.json", "--out", "report", "--", *TORCHRUN, "train.py")
    return lambda *arguments: profiled(tmp_path, *words, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fetch_ms", "own_ms", "late"),
    [
        (15, 0, "Rank 1 is late because of its data"),
        (0.1, 40, "Rank 1 is late because of its own code"),
    ],
    ids=["data", "compute"],
)
def test_the_late_rank_is_named_with_its_cause(profile, tmp_path, fetch_ms, own_ms, late) -> None:
    done = profile(fetch_ms, own_ms)
    assert done.returncode == 0, done.stderr
    assert {"rank 0 ended", "rank 1 ended"} <= {*done.stdout.splitlines()}
    assert late in done.stderr
    record = json.loads((tmp_path / "ranks.json").read_bytes())
    assert {*record["ranks"]} == {"0", "1"}
    typed = ["headrace", "profile", "--json", "ranks.json", "--out", "report", "--", *TORCHRUN]
    for rank in record["ranks"].values():
        command = rank["provenance"]["command"]
        assert command == [*typed, "train.py", str(fetch_ms), str(own_ms)]
    assert late in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


def test_apply_advice_is_refused_with_several_ranks(tmp_path) -> None:
    (tmp_path / "train.py").touch()
    done = profiled(tmp_path, "--apply-advice", "--", *TORCHRUN, "train.py")
    assert done.returncode == 2
    assert "--apply-advice does not work with several ranks" in done.stderr


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_launcher_and_the_ranks_are_reported(profile) -> None:
    done = profile(0.1, 0, 3)
    assert done.returncode == 1
    assert "frames" not in done.stdout
    assert "rank  steps" in done.stderr
