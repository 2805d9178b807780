"""The planner: what to set for a data loader, from the videos themselves."""
