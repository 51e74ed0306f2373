"""Traces of rLLM's model gateway: an SQLite store, one row a call."""
