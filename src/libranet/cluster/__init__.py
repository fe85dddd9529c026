"""Beyond one machine: many jobs over a Ray cluster. The engine does the work; this package hands it out."""
