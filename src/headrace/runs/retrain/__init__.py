"""Training of a new head of a model on labelled videos, recorded as a session."""
