"""Schedule strategies: what a campaign measures next."""
