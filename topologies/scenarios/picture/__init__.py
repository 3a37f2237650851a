"""A scenario's run as a picture of time: event time against processing time, as SVG, PNG, or a page to step through."""
