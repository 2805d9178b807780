"""A model on frames as they come: its parts, the run, its record, and the loop for Python."""
