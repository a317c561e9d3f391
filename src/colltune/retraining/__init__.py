"""Nightly retraining: what was measured is fitted, judged against the bundle in force, promoted."""
