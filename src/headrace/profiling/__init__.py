"""Recording where the time went, as one value, and what follows from it."""
