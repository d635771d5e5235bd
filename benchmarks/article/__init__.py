"""The article (Battiston and Rimella, 2024) beside keyhole: its experiments, and its algorithm as it is printed.

Nothing here belongs to the product. Equation and step numbers are those of the article.
"""
