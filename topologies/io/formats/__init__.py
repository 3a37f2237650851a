"""Event files as Arrow columns: Parquet, CSV, JSON lines and Arrow IPC.

Reading loses nothing and changes nothing. A row is either good, with exactly the declared types, or a bad row, with its
place, the reason and its text. A file that cannot be read as a whole raises a DataError that names it.

    reader = file_format("csv", delimiter=";")
    for split in reader.split(fs, path, wanted=4):
        for rows, numbers, bad in reader.read(fs, split, parse_schema("user string, amount double")):
            ...
"""

from topologies.io.formats.columnar import ArrowFormat, ParquetFormat
from topologies.io.formats.csv import CsvFormat
from topologies.io.formats.event_files import BadRows, Chunk, FileFormat, FileSplit
from topologies.io.formats.json import JsonlFormat
from topologies.io.formats.write_table import FormatName, file_format, infer_schema, write_table

__all__ = [
    "ArrowFormat",
    "BadRows",
    "Chunk",
    "CsvFormat",
    "FileFormat",
    "FileSplit",
    "FormatName",
    "JsonlFormat",
    "ParquetFormat",
    "file_format",
    "infer_schema",
    "write_table",
]
