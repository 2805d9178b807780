"""What a session shows: one question per file, each a pure function from session to finding."""
