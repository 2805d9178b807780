"""Tests beside lerobot, which `make test-lerobot` installs; none without it."""

from importlib.util import find_spec

if find_spec("lerobot"):
    from with_lerobot.written import written as written
else:
    collect_ignore_glob = ["test_*.py"]
