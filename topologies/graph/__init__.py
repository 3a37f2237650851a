"""What a topology is once it has been built, in data and in words."""
