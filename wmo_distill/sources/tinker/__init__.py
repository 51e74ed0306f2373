"""The files of Harbor trials: where they are, what they hold, and when they changed."""
