"""Keys and values of topics: their formats, their schemas in a registry or a file, their envelopes."""
