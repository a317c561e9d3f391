"""The endpoints, one module per thing, each a few lines over the service."""
