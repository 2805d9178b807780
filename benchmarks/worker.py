"""One question in a process of its own: asked in JSON on stdin, answered by one line of JSON.

{"question": "every_frame", "cores": 2, "library": "decord", "paths": [...], ...}

A question is a module of `benchmarks.questions`; it says what else it is asked with.
"""

import json
import sys
from importlib import import_module
from typing import cast

from benchmarks.questions import Question
from benchmarks.resources import keep_to_cores


def main() -> None:
    """Read what is asked, keep to as many cores as it says, answer, end."""
    asked = json.load(sys.stdin)
    keep_to_cores(asked.pop("cores"))
    question = cast(Question, import_module(f"benchmarks.questions.{asked.pop('question')}"))
    print(json.dumps(question.answer(**asked)), flush=True)


if __name__ == "__main__":
    main()
