"""Checks and measurements that need a GPU, in one command: `make gpu-check`."""
