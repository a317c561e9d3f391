"""Runtime models: learners fit them, bundles keep them, and predicting needs numpy alone."""
