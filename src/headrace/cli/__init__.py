"""The command line: one file per command; flags build the values the library itself takes."""

from headrace.cli.main import main

__all__ = ["main"]
