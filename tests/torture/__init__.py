"""Attacks that take long."""
