"""Family C: the compliance tests: were they run as the round requires, and what do their logs show."""
