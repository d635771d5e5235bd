"""Whether to believe draws: predictive laws, Monte Carlo errors, gates, groups of chains. Arrays in, values out."""
