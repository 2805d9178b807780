"""Windows of several moments of camera clips, in any order."""
