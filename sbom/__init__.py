"""The bill of materials that a wheel carries: what it brings along where it is installed."""
