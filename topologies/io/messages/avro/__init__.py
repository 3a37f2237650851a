"""Avro messages: the schema, whether bytes and objects are values of it, reading and writing."""
