"""Checks and measurements that need an NVIDIA GPU, in one command: `make gpu-check`."""
