"""Where tasks run: one seam, `map(task, items)`; engines know tasks, not trials."""
