"""A training loop of somebody's own: what it waits for, and what in the data path costs that."""
