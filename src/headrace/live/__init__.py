"""A model on one source as it comes, from decode to sinks; a file at full speed is the same path without a pace."""
