"""The bolts of a step, and the columns of the streams between them."""
