"""``python -m trunkline``: the command, where its script is not on the path."""

from trunkline.cli.main import run

run()
