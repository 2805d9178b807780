"""Several runs at once, each a process of its own, as one file describes them."""
