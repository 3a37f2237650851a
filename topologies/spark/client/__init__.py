"""The driver as a client of Kafka, by Java of windbolt's own (decision 73)."""
