"""Models: loading, weights, labels, and making them ready to run."""
