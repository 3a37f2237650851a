"""Real runs on Spark that die at any operation on a file: of the driver, of the JVM, of a worker."""
