"""Measuring: what (campaign), in which order (schedule), how (launch, backends), and doing it."""
