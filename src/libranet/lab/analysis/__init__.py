"""What a trained network has learned: probes of its grids and transforms, as numbers and figures."""
