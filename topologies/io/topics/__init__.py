"""Keys and values of topics as they are: their formats, their schemas in a registry or a file, their envelopes."""
