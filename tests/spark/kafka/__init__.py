"""Tests of topics of Kafka as sources and sinks, on a broker."""
