"""The tests: README.md here says where each lives."""
