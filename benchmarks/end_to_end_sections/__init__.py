"""The parts of `benchmarks/end_to_end.py`: each function measures one section of the table."""
