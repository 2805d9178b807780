"""The example trains with equal items and losses, whichever loader it uses."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_lerobot.py"


@pytest.mark.filterwarnings("ignore")
def test_both_loaders_give_the_same_items_and_losses(written: Any) -> None:
    def lines(loader: str) -> list[str]:
        options = ["--steps", "2", "--batch_size", "2", "--loader", loader]
        run = subprocess.run(
            [sys.executable, EXAMPLE, written("H.264, g=30"), *options],
            capture_output=True,
            text=True,
            check=True,
        )
        return [line for line in run.stdout.splitlines() if line.startswith("step ")]

    ours = lines("headrace")
    assert len(ours) == 2
    assert ours == lines("lerobot")
