"""What tests use that is no test: input, faults, processes and stores to run against."""
