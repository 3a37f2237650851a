"""Programs that tests and benchmarks run windbolt against: a Kafka broker, an object store, Prometheus, a browser, and
a standalone cluster of Spark, each on this machine and in processes of its own."""
