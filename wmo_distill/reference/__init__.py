"""The entry points of world-model-optimizer 0.2.0, and what follows only its rules."""
