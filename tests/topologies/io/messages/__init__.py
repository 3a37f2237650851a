"""Tests of ``topologies/io/messages/``."""
