"""Evidence to records: spans, ending, grade."""
