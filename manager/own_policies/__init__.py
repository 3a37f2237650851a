"""Windows of policies of a user's own: what the policies are told, and what they answer (decision 96)."""
