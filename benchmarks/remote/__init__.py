"""Reading videos that do not lie on the machine."""
