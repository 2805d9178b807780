"""A model on one source, from decode to sinks; a file is read at full speed."""
