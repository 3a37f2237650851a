"""Single messages, such as the values of Kafka records: read into Python objects and written from them.

    orders = CsvMessages(("id", "amount"), separator=";")
    orders.read(b"1;2.5")                        # {"id": 1, "amount": 2.5}
    JsonMessages().write({"id": 1})              # b'{"id":1}'

Any bytes are read, or raise Unreadable with a reason of one line. Any object is written, or raises Unwritable. Nothing
is rounded or left out silently.
"""

from topologies.io.messages.avro import SCHEMA_NAME, AvroMessages, AvroSchema
from topologies.io.messages.csv import CsvMessages
from topologies.io.messages.json import JsonMessages, read_many
from topologies.io.messages.message import MAX_BYTES, MAX_DEPTH, Headers, MessageFormat, Unreadable, Unwritable
from topologies.io.messages.xml import XmlMessages

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "SCHEMA_NAME",
    "AvroMessages",
    "AvroSchema",
    "CsvMessages",
    "Headers",
    "JsonMessages",
    "MessageFormat",
    "Unreadable",
    "Unwritable",
    "XmlMessages",
    "read_many",
]
