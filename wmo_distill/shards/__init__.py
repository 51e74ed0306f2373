"""Records to Parquet and back."""
