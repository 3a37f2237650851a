"""Event files as Arrow columns: Parquet, CSV, JSON lines and Arrow IPC.

Reading loses nothing and changes nothing: a row is either good, with exactly the declared types, or it is in
the bad rows with its place, the reason and its text. What a file as a whole cannot be is a DataError that
names it.

    reader = file_format("csv", delimiter=";")
    for piece in reader.split(fs, path, wanted=4):
        for rows, numbers, bad in reader.read(fs, piece, parse_schema("user string, amount double")):
            ...
"""

from topologies.formats.arrow import ArrowFormat
from topologies.formats.bad import BadRows
from topologies.formats.choose import file_format, infer_schema
from topologies.formats.csv import CsvFormat
from topologies.formats.jsonl import JsonlFormat
from topologies.formats.parquet import ParquetFormat
from topologies.formats.piece import Chunk, FileFormat, FilePiece
from topologies.formats.writing import write_table

__all__ = [
    "ArrowFormat",
    "BadRows",
    "Chunk",
    "CsvFormat",
    "FileFormat",
    "FilePiece",
    "JsonlFormat",
    "ParquetFormat",
    "file_format",
    "infer_schema",
    "write_table",
]
