"""Convergence: predictive distributions, Monte Carlo errors, gates, groups of chains. Arrays in, values out."""
