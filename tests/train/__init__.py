"""A demonstration that the data trains: `make train-demo`."""
