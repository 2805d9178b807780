"""Findings about a session: what bounds it, and what to change."""
