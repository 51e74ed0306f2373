"""Records to training sequences."""
