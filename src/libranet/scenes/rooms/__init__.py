"""Furnished rooms: see `libranet.scenes.render_room`."""
