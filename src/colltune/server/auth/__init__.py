"""Who may write: bearer tokens from a file, MUNGE credentials, and the gate that asks for them."""
