"""Video files in and out: frames, colour, streams. Nothing here knows a network."""
