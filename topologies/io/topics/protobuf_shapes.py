"""Protobuf messages in topics, read by the descriptor of their writer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from topologies.io.messages.avro_schema import long_at
from topologies.io.messages.message import Misfit, Unreadable
from topologies.io.topics.shapes import Leaf, ListShape, MapShape, Shape, StructShape
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool

WELL_KNOWN = (
    "any",
    "source_context",
    "type",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "struct",
    "timestamp",
    "wrappers",
)
"""The files of ``google/protobuf/`` that Protobuf itself includes, each after those that it imports."""


def pool_of(files: Sequence[bytes]) -> DescriptorPool:
    """Returns a pool with the types of files, given as serialized FileDescriptorProtos, each after its imports.

    Raises ConfigError for bytes that are not such a file, and for a missing import.
    """
    import importlib

    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    known_files = set()
    for name in WELL_KNOWN:
        module: Any = importlib.import_module(f"google.protobuf.{name}_pb2")
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        known_files.add(module.DESCRIPTOR.name)
    for serialized in files:
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(serialized)
            if file.name not in known_files:
                pool.AddSerializedFile(serialized)
                known_files.add(file.name)
        except Exception as error:  # protobuf raises several kinds
            raise ConfigError(
                f"a descriptor of Protobuf cannot be read: {error}",
                do="compile it with all that it imports: protoc --include_imports --descriptor_set_out=FILE ...",
            ) from error
    return pool


def files_in_descriptor(path: str, content: bytes) -> list[bytes]:
    """Returns the files in a compiled descriptor, each after those that it imports. Raises ConfigError."""
    from google.protobuf import descriptor_pb2

    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(content).file
    except Exception as error:  # protobuf raises several kinds
        raise ConfigError(
            f"{path!r} is no compiled descriptor of Protobuf",
            why=str(error),
            do="make one: protoc --include_imports --descriptor_set_out=FILE orders.proto",
        ) from error
    return [file.SerializeToString() for file in found]


def serialized_file(text: str, name: str) -> bytes:
    """Returns a registry's ``serialized`` response as a file with this name. Raises Unreadable for other responses."""
    from google.protobuf import descriptor_pb2

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        raise _not_compiled(text) from None
    except Exception:  # DecodeError is not a ValueError in all versions
        raise _not_compiled(text) from None
    file.name = name
    return bytes(file.SerializeToString())


def _not_compiled(text: str) -> ConfigError:
    return ConfigError(
        f"the registry gives a schema of Protobuf as source: {text[:40]!r}...",
        why="it has to be compiled, which registries do that know ?format=serialized",
        do="read the topic with a compiled descriptor: schema_file='orders.desc', from protoc --include_imports "
        "--descriptor_set_out=orders.desc orders.proto",
    )


# Shapes of messages.


_LEAVES: Mapping[str, pa.DataType] = {
    "double": pa.float64(),
    "float": pa.float32(),
    "int32": pa.int32(),
    "sint32": pa.int32(),
    "sfixed32": pa.int32(),
    "int64": pa.int64(),
    "sint64": pa.int64(),
    "sfixed64": pa.int64(),
    "uint32": pa.uint32(),
    "fixed32": pa.uint32(),
    "uint64": pa.uint64(),
    "fixed64": pa.uint64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_WRAPPERS = {
    f"google.protobuf.{name}Value": Leaf(kind, lambda value: value.value)
    for name, kind in (
        ("Double", pa.float64()),
        ("Float", pa.float32()),
        ("Int64", pa.int64()),
        ("UInt64", pa.uint64()),
        ("Int32", pa.int32()),
        ("UInt32", pa.uint32()),
        ("Bool", pa.bool_()),
        ("String", pa.string()),
        ("Bytes", pa.binary()),
    )
}
_TEXTS = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})


def _kinds_of_fields() -> Mapping[int, str]:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}


class ProtobufReader:
    """Reads the messages of one file; each type of message is a variant, given by its indexes in the file."""

    def __init__(self, files: Sequence[bytes], message: str | None = None) -> None:
        """``files``: serialized, each after those that it imports; the last one has the messages. ``message``: the only
        type, if no indexes precede messages. Raises ConfigError."""
        from google.protobuf import descriptor_pb2

        self._pool = pool_of(files)
        self._kinds = _kinds_of_fields()
        self._file = self._pool.FindFileByName(descriptor_pb2.FileDescriptorProto.FromString(files[-1]).name)
        self._classes: dict[tuple[int, ...], Any] = {}
        self._shapes: dict[tuple[int, ...], StructShape] = {}
        self._only_message = None if message is None else self._find_message(message, files)

    def _find_message(self, message: str, files: Sequence[bytes]) -> Descriptor:
        try:
            return self._pool.FindMessageTypeByName(message)
        except KeyError:
            from google.protobuf import descriptor_pb2

            protos = [descriptor_pb2.FileDescriptorProto.FromString(file) for file in files]
            names = [f"{each.package}.{one.name}".lstrip(".") for each in protos for one in each.message_type]
            raise ConfigError(
                f"the schema file has no message {message!r}",
                why=f"it has {', '.join(names)}",
                do="name it with its package: message='shop.Order'",
            ) from None

    def read(self, value: bytes, start: int) -> tuple[tuple[int, ...], Any]:
        """Returns the variant and the message in the bytes from ``start`` to the end. Raises Unreadable."""
        path: tuple[int, ...] = ()
        if self._only_message is None:
            path, start = indexes_at(value, start)
        made = self._classes.get(path) or self.class_of(path)
        try:
            return path, made.FromString(value[start:])
        except Exception as error:  # DecodeError, and UnicodeDecodeError in some versions
            raise Unreadable(str(error) or type(error).__name__) from None

    def shape(self, variant: tuple[int, ...]) -> Shape:
        if variant not in self._shapes:
            self._shapes[variant] = self._message(self._descriptor(variant))
        return self._shapes[variant]

    def variants(self) -> Sequence[tuple[int, ...]]:
        return [(index,) for index in range(len(self._file.message_types_by_name))]

    def name(self, variant: tuple[int, ...]) -> str:
        """Returns the name of a variant's type, for messages."""
        return str(self._descriptor(variant).full_name)

    def class_of(self, path: tuple[int, ...]) -> Any:
        """Returns the class for messages of a variant."""
        from google.protobuf import message_factory

        self._classes[path] = message_factory.GetMessageClass(self._descriptor(path))
        return self._classes[path]

    def _descriptor(self, path: tuple[int, ...]) -> Descriptor:
        if self._only_message is not None:
            return self._only_message
        found: Any = None
        messages = list(self._file.message_types_by_name.values())
        for index in path:
            if not 0 <= index < len(messages):
                raise Unreadable(f"its file has no message with the indexes {list(path)}")
            found = messages[index]
            messages = list(found.nested_types)
        return found

    def _message(self, descriptor: Descriptor) -> StructShape:
        def fields() -> dict[str, Shape]:
            return {each.name: self._field(each) for each in descriptor.fields}

        present = {each.name for each in descriptor.fields if each.has_presence}

        def get(value: Any, name: str) -> Any:
            return getattr(value, name) if name not in present or value.HasField(name) else None

        name = descriptor.full_name
        return StructShape(fields, get, as_leaf=partial(_whole_text, name) if name in _TEXTS else _no_leaf)

    def _field(self, each: FieldDescriptor) -> Shape:
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            entry_fields = each.message_type.fields_by_name
            return MapShape(
                self._single_shape(entry_fields["key"]), self._single_shape(entry_fields["value"]), ordered=False
            )
        one = self._single_shape(each)
        return ListShape(one) if each.is_repeated else one

    def _single_shape(self, each: FieldDescriptor) -> Shape:
        if each.message_type is not None:
            return _WRAPPERS.get(each.message_type.full_name) or self._message(each.message_type)
        if each.enum_type is not None:
            return Leaf(pa.int32(), text=partial(_symbol, each.enum_type.values_by_number))
        return Leaf(_LEAVES[self._kinds[each.type]])


def _no_leaf(target: pa.DataType) -> None:
    return None


def _whole_text(name: str, target: pa.DataType) -> Leaf | None:
    """Returns the leaf of times and durations, which become texts with nine digits; None if a struct is declared."""
    return None if pa.types.is_struct(target) else Leaf(pa.string(), _json_text)


def _json_text(value: Any) -> str:
    try:
        return str(value.ToJsonString())
    except ValueError as error:
        raise Misfit(str(error)) from None


def _symbol(symbols: Mapping[int, Any], value: int) -> str:
    if value not in symbols:
        raise Misfit(f"{value} is no value of its enum")
    return str(symbols[value].name)


# The indexes of a message's type in its file, which precede the message.


def indexes_at(value: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Returns the indexes, and the position of their end; a single 0 means the first type of the file. Raises
    Unreadable."""
    try:
        count, start = long_at(value, start)
        if not 0 <= count <= len(value) - start:
            raise Unreadable(f"{count} indexes of a message's type are said to follow")
        path = []
        for _ in range(count):
            index, start = long_at(value, start)
            path.append(index)
    except Misfit as misfit:
        raise Unreadable(misfit.reason) from None
    except IndexError:
        raise Unreadable("it ends within the indexes of its message's type") from None
    return tuple(path) or (0,), start


def indexes_in_bytes(path: Sequence[int]) -> bytes:
    """Returns the indexes in the form in which they precede the message."""
    if list(path) == [0]:
        return b"\0"
    return b"".join(map(_zigzag_bytes, [len(path), *path]))


def _zigzag_bytes(number: int) -> bytes:
    number = number << 1
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
