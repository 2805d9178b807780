"""LeRobot datasets: folder, windows of episodes, and loaders."""
