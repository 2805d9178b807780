"""`python -m headrace`: the command line."""

from headrace.cli import main

main()
