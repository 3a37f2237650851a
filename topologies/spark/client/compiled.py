"""Java of windbolt's own, compiled in the driver's JVM when it is needed, by the compiler that Spark has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_FOLDER = Path(__file__).parent
FAILURES = (Py4JError, TypeError)
"""What is raised where Java fails, or has no compiler: to py4j a class that is not there is a package."""


_COMPILED: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""The constructors in each JVM, by the names of their classes. A class stays for the next run: by then Java has made
fast code of it."""


def compiled(spark: SparkSession, name: str) -> Any:
    """The constructor of the class of a source beside this file; ``made`` calls it. Raises one of FAILURES.

    The class has the digest of its source in its name, because py4j finds methods by the names of classes, and would
    call those of another class that has the same name.
    """
    source = (_FOLDER / f"{name}.java").read_text("utf-8")
    named = f"{name}{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    here = _COMPILED.setdefault(spark.sparkContext._gateway, {})
    if named not in here:
        jvm: Any = spark._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(source.replace(name, named))
        here[named] = compiler.getClassLoader().loadClass(f"windbolt.{named}").getConstructors()[0]
    return here[named]


def made(spark: SparkSession, constructor: Any, *arguments: Any) -> Any:
    """A new object."""
    jvm: Any = spark._jvm
    given = jvm.java.util.ArrayList()
    for argument in arguments:
        given.add(argument)
    return constructor.newInstance(given.toArray())


def properties(spark: SparkSession, settings: Mapping[str, str]) -> Any:
    """Settings as Java's Properties."""
    jvm: Any = spark._jvm
    found = jvm.java.util.Properties()
    for name, value in settings.items():
        found.setProperty(name, value)
    return found


def kafka_settings(*options: Mapping[str, str]) -> dict[str, str]:
    """The options of Spark's connector that are for Kafka's own clients; the last one counts."""
    return {
        name.removeprefix("kafka."): value
        for some in options
        for name, value in some.items()
        if name.startswith("kafka.")
    }
