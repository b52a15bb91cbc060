"""A small OpenAI-compatible server for the embedded language benchmark: `assay serve stories`."""
