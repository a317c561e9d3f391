"""The service: HTTP endpoints over bundles, and what Slurm runs for a job."""
