"""Runs models over datasets and turns the results into summaries, tables and a report."""
