"""The command line. Only `main` exits, with the status of the error's kind."""
