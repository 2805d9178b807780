"""Cache of chunk results, keyed by all their inputs; its failures cost time, not correctness."""
