"""A real server of language models: `make test-vllm`."""
