"""Spouts of one's own, ready to copy: a table of a database, a web service, a folder of mails."""
