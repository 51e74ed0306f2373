"""A build: trials found, read by an engine, and put in place as one dataset."""
