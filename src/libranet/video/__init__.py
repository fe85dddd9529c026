"""Video decoding, encoding, colour conversion and muxing. Nothing here knows a network."""
