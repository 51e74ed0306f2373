"""A JSON document with token lists, read at the speed of memory. Knows no harness."""
