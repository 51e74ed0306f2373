"""The HTML report: one file without scripts, made from the statistics alone."""
