"""Aggregates that an AggregateBolt computes: ``AggregateBolt(by="user", orders=count(), revenue=sum("amount"))``."""

from windowing.aggregates import *  # noqa: F403
from windowing.aggregates import __all__  # noqa: F401
