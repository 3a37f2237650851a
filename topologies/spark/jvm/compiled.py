"""Java of windbolt's own, compiled in the driver's JVM when it is needed, by the compiler that Spark has."""

from __future__ import annotations

import hashlib
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_ONE_AT_A_TIME = Lock()

FAILURES = (Py4JError, TypeError)
"""What is raised where Java fails, or has no compiler: to py4j a class that is not there is a package."""


_COMPILED: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""The constructors in each JVM, by the names of their classes. A class stays for the next run: by then Java has made
fast code of it."""


def compiled(spark: SparkSession, file: Path) -> Any:
    """The constructor of the class of a source, which has the name of its file; ``made`` calls it. Raises one of
    FAILURES.

    The class has the digest of its source in its name, because py4j finds methods by the names of classes, and would
    call those of another class that has the same name.
    """
    name, source = file.stem, file.read_text("utf-8")
    named = f"{name}{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    with _ONE_AT_A_TIME:  # two classes of one name would be one for py4j
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
