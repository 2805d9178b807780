"""Launches: several concurrent runs, each in its own process, described by one file."""
