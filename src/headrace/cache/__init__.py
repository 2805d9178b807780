"""Results of chunks, kept under what they were made of; a cache costs time, never correctness."""
