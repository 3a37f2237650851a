"""Avro messages: schemas, checking bytes and objects against them, reading and writing."""
