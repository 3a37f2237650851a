"""The names by which PySpark asks Java for its classes."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

_CLASSES = ("PythonRDD", "PythonUtils", "SimplePythonFunction")
"""What a job of RDDs asks for."""


def know_classes(context: SparkContext) -> None:
    """Ask for these classes once.

    PySpark asks for them anew in each job. Java then looks in one package after another, and wherever it does not find
    one, through all of Spark's jars: 3 ms in each job.
    """
    jvm: Any = context._jvm
    for name in _CLASSES:
        if name not in vars(jvm):
            setattr(jvm, name, getattr(jvm, name))
