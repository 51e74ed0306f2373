"""Captures of tinker-cookbook: rollouts from JSON lines or a store, with their rewards."""
