"""Training: typed recipes, haze made on the fly, the loop, exact resume."""
