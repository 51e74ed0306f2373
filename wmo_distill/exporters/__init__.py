"""Training sequences in the forms that trainers read."""
