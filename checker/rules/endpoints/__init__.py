"""Families P, A and C for endpoints results, which have documents instead of LoadGen's logs."""
