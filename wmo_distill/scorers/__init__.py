"""Log-probabilities of recorded tokens under a teacher, or under the student again."""
