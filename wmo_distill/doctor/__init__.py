"""What directories of trials hold, reported before a build."""
