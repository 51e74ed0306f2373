"""Thin commands: parse, call, render."""
