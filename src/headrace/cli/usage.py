"""What is said of a command line that cannot be understood."""

from collections.abc import Sequence
from typing import Any, Final, cast

import typer

from headrace.masking import without_secrets

UsageError: Final = cast(type[Exception], typer.BadParameter.__base__)
"""What typer raises of a command line; it has a name for one kind only."""
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


def in_our_words(error: Any, arguments: Sequence[str]) -> Exception:
    """Return an error of the command line with words of ours, and without passwords.

    Words of the validation library are replaced; passwords in addresses among the arguments are
    masked.
    """
    cause: Any = error.__cause__
    if isinstance(error, typer.BadParameter) and hasattr(cause, "errors"):
        fault = cause.errors()[0]
        known = fault.get("ctx", {})
        if fault["type"] == "value_error":
            error.message = str(known["error"])
        else:
            words = _WORDS.get(fault["type"], "cannot be used").format(**known)
            error.message = f"{words}, got {fault['input']!r}"
    error.message = without_secrets(error.message, arguments)
    return cast(Exception, error)
