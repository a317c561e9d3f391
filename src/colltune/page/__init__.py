"""What people see of a bundle: facts as records, and the page that shows them.

The page is the same code in a file (`colltune report`, `colltune tune`) and from the service.
"""
