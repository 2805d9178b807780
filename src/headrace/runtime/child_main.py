"""What a child that was started for a function does: import it, run it, write what comes of it."""

import importlib
import json
import os
import sys
from collections.abc import Sequence
from operator import attrgetter

from headrace.runtime.child_spec import FunctionSpec, Json

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from headrace.runtime.child_main import main; main(sys.argv[2:])"
)
"""The child finds modules where its parent does."""


def command_line(call: FunctionSpec, pipe: int) -> list[str]:
    """Return the program and arguments that run a call; it writes to the file number `pipe`.

    Raises:
        TypeError: the argument is not JSON.
    """
    argument = json.dumps(call.argument)
    return [sys.executable, "-c", _START, json.dumps(sys.path), call.target, argument, str(pipe)]


def main(arguments: Sequence[str]) -> None:
    """Run the function; each line written holds one of "message", "result" and "error"."""
    target, argument, pipe = arguments
    with os.fdopen(int(pipe), "w", encoding="utf-8") as lines:

        def write(kind: str, value: Json) -> None:
            lines.write(json.dumps({kind: value}) + "\n")
            lines.flush()

        try:
            module, _, name = target.partition(":")
            function = attrgetter(name)(importlib.import_module(module))
            result = function(json.loads(argument), lambda message: write("message", message))
            write("result", result)
        except BaseException as error:
            write("error", f"{type(error).__name__}: {error}")
            raise  # the traceback belongs to what it writes to its standard error
