"""Files to evidence: where harnesses keep things, and how each is read without trusting it."""
