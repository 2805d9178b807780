"""Records of runs, their metrics, and findings about what bounds them."""
