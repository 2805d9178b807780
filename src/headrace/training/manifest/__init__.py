"""Tables whose rows are sampled: read, checked, split."""
