"""Is every frame the right one? Each way to it, held against a plain linear decode of the file."""
