"""Thin commands: parse, call, render."""

import gc

# Loading modules and reading trials make many objects that live on, and hardly a cycle: at the
# usual threshold of 700 the collector takes 6 % of the start of a command.
gc.set_threshold(50_000)
