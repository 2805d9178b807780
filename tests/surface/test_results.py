"""The layout of the results of benchmarks, from which pages and charts are drawn again."""

import json
from pathlib import Path

import pytest

from surface.shapes import found

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize("name", sorted(path.stem for path in RESULTS.glob("*.json")))
def test_the_result_of_a_benchmark_is_laid_out_like_this(holds, name):
    result = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    holds(f"results/{name}.txt", "\n".join(sorted(found(result))) + "\n")
