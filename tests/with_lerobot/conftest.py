"""Comparisons with lerobot (`make test-lerobot`); without it, no test is collected."""

from importlib.util import find_spec

if find_spec("lerobot"):
    from with_lerobot.written import written as written
else:
    collect_ignore_glob = ["test_*.py"]
