"""A model on videos, from decode to sinks, recorded as a session."""
