"""TrainingSteps a new head of a model on labelled videos, as a recorded session."""
