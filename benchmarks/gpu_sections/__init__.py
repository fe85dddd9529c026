"""The parts of `benchmarks/gpu.py`. Each runs in a process of its own, so that one failing kernel leaves the rest."""
