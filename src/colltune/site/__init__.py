"""A site: the folder from which all jobs of a cluster are tuned, and whether all of it works."""
