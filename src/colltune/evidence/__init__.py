"""Where times are compared: what jobs of drawn arms tell, and how many verdicts may be wrong."""
