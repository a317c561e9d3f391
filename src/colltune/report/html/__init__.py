"""A report as one HTML page: for `colltune report` to write and for the service to hand out."""
