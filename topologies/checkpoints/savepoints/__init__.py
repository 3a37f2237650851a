"""Savepoints: a whole checkpoint at another place, with nothing in it that belongs to the old one."""
