"""The demo: every flight that left New York in 2013, as two streams whose disorder and lateness are real."""
