"""An Avro schema, and how its values are read and written."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader, schemaless_writer

from topologies.io.messages.avro.byte_check import Check, check_of
from topologies.io.messages.avro.numbers_and_unions import Fit, fit_of
from topologies.io.messages.avro.parsing import parsed
from topologies.io.messages.message_errors import Unreadable, Unwritable
from topologies.io.messages.misfit import Misfit
from windowing.errors import ConfigError


@dataclass(frozen=True)
class AvroSchema:
    """A schema by its full name; of several, the ``default`` is for messages that name none.

    It is a record, an enum or a fixed, and what it refers to is in its text. Raises ConfigError for a text that is
    no schema, or is of another name; ``AvroSchema.parse`` takes the name from the text.
    """

    name: str
    text: str
    default: bool = False
    _schema: dict[str, Any] = field(init=False, repr=False, compare=False)
    _check: Check = field(init=False, repr=False, compare=False)
    _fit: Fit = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        made = parsed(self.text)
        if made.schema["name"] != self.name:
            raise ConfigError(f"the Avro schema {self.name!r} is named {made.schema['name']!r} in its text")
        object.__setattr__(self, "_schema", made.schema)
        object.__setattr__(self, "_check", check_of(made))
        object.__setattr__(self, "_fit", fit_of(made))

    @staticmethod
    def parse(text: str, default: bool = False) -> AvroSchema:
        """The schema in a text. Raises ConfigError."""
        return AvroSchema(str(parsed(text).schema["name"]), text, default)

    def read(self, value: bytes, max_depth: int) -> Any:
        """The value in a message, which must be all of it. Raises Unreadable."""
        try:
            end = self._check(value, 0, max_depth)
            if end != len(value):
                raise Misfit(f"{len(value) - end} bytes are left over after it")
            return schemaless_reader(BytesIO(value), self._schema, None)
        except Misfit as misfit:
            reason: Any = misfit.unwritable()
        except IndexError:
            reason = "the message ends within the value"
        except Exception as error:  # right shape but no value: invalid UTF-8, the year 10,000
            reason = repr(error)
        raise Unreadable(f"not a value of {self.name}: {reason}")

    def write(self, event: Any, max_depth: int) -> bytes:
        """The message for a value. Raises Unwritable."""
        message = BytesIO()
        try:
            schemaless_writer(message, self._schema, self._fit(event, max_depth))
        except Misfit as misfit:
            raise Unwritable(f"not a value of {self.name}: {misfit.unwritable()}") from None
        except Exception as error:  # objects may run their own code
            raise Unwritable(f"not a value of {self.name}: {error!r}") from error
        return message.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSchema, (self.name, self.text, self.default)
