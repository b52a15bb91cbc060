"""Family D: the system description systems/<system>.json."""
