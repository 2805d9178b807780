"""What is said of a command line that cannot be understood."""

from typing import Any, Final

import typer

_WORDS: Final = {
    "greater_than_equal": "must be >= {ge}",
    "less_than_equal": "must be <= {le}",
    "greater_than": "must be > {gt}",
    "less_than": "must be < {lt}",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
}
"""Kind of a fault, as the validation library calls it, to words of ours."""


def in_our_words(error: Exception) -> Exception:
    """Return the error with words of ours where those of the validation library would be shown."""
    cause: Any = error.__cause__
    if isinstance(error, typer.BadParameter) and hasattr(cause, "errors"):
        fault = cause.errors()[0]
        known = fault.get("ctx", {})
        if fault["type"] == "value_error":
            error.message = str(known["error"])
        else:
            words = _WORDS.get(fault["type"], "cannot be used").format(**known)
            error.message = f"{words}, got {fault['input']!r}"
    return error
