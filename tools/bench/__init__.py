"""What `make bench` measures. None of it is a test: a loaded machine would fail it."""
