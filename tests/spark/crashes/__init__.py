"""Tests of runs on Spark that end early: killed, stopped, failed, damaged, taken over; and of how they continue."""
