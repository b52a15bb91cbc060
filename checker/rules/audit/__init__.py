"""Family R: evidence that a log, a result or a round gives against itself, a file a subject."""
