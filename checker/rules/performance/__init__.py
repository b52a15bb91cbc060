"""Family P: the performance run: was it run as the round demands, and is its number sound."""
