"""The page on Kafka in and out runs as it stands there, but for the address of the broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewTopic

from servers.kafka import Kafka
from tests.helpers.places import ROOT
from tests.helpers.walking import Walk, walk

PAGE = (ROOT / "docs" / "kafka-in-and-out.md").read_text(encoding="utf-8")


def test_the_page_on_kafka(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    topics = {"orders": 2, "revenue": 1}
    made = kafka.admin.create_topics([NewTopic(name, partitions, 1) for name, partitions in topics.items()])
    for each in made.values():
        each.result(30)
    try:
        assert walk(PAGE.replace("127.0.0.1:9092", kafka.servers), tmp_path) == Walk(examples=3)
    finally:
        for each in kafka.admin.delete_topics(list(topics)).values():
            each.result(30)
