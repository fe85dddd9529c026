"""Runs models over data sets and turns the results into summaries, tables and a report."""
