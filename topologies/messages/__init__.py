"""Single messages, such as the values of Kafka records: read into Python objects and written from them.

    orders = CsvMessages(("id", "amount"), separator=";")
    orders.read(b"1;2.5")                        # {"id": 1, "amount": 2.5}
    JsonMessages().write({"id": 1})              # b'{"id":1}'

Whatever bytes come, they are read or they are Unreadable, with the reason in a line; whatever object comes, it is
written or Unwritable. Nothing is rounded or left out in silence.
"""

from topologies.messages.avro_messages import SCHEMA_NAME, AvroMessages
from topologies.messages.avro_schema import AvroSchema
from topologies.messages.csv_messages import CsvMessages
from topologies.messages.errors import Unreadable, Unwritable
from topologies.messages.json_messages import JsonMessages
from topologies.messages.limits import MAX_BYTES, MAX_DEPTH
from topologies.messages.message_format import Headers, MessageFormat
from topologies.messages.xml_messages import XmlMessages

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
]
