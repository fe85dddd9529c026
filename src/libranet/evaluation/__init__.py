"""Running models over data sets, and turning the measurements into summaries, tables and a report."""
