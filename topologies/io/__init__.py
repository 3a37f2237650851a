"""What lies outside: files and topics, their formats, and how a topology names them. It knows nothing of topologies."""
