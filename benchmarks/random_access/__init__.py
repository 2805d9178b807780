"""Ways to deliver frames that were asked for in random order, one file each."""
