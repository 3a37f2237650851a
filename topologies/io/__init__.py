"""Access to files and topics, their formats, and how a topology names them. It depends on nothing else in
topologies."""
