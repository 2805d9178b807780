"""Planner of `headrace plan`: settings of a data loader, from the videos themselves."""
