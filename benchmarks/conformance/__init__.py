"""Is every frame right? Compares every access method with a plain linear decode of the file."""
