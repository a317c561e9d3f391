"""The whole way in one go: measure, fit, select, write, and measure again whether it helped."""
