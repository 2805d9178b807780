"""Everything that wants a GPU, checked and measured by one command: `make gpu-check`."""
