"""What the benchmark of proxies measures on: a few videos under many names, and their copies."""
