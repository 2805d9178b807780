"""Frames as they come: sources, their pace, and what is done when they are too many."""
