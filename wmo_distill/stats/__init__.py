"""Numbers over trial records, each rate with its numerator and denominator."""
