"""LeRobot datasets: their folder, the windows of their episodes, and loaders of them."""
