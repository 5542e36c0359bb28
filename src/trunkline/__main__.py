"""``python -m trunkline``: the command, where its script is not on the path."""

from trunkline.cli.start import run

run()
