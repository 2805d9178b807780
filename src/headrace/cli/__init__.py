"""The command line: one file per command; flags build the values the library itself takes."""
