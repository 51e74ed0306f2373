"""Rollouts of Agent Lightning, from saved answers of its API."""
