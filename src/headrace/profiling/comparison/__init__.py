"""Comparison of recorded sessions: differences and their confidence intervals."""
