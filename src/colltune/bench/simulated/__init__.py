"""Measuring in simulated time: platforms, SimGrid's programs, and ours that runs in them."""
