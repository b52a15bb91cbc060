"""Fuzzing: `python -m tests.fuzz --seconds 600`, and what it found as tests."""
