"""``trunkline broker receive``: events of webhooks as lines of JSON."""

import json
import sys
from threading import Lock
from typing import Any

from trunkline.broker.receiver import Receiver
from trunkline.cli.output import say


def serve(host: str, port: int, *, secret: str | None, limit: int | None) -> None:
    """Take requests until so many events came, or control-C."""
    receiver = Receiver(host, port, secret=secret, take=_Printer(limit).take, say=say)
    how = "verified" if secret else "not verified: there is no --secret"
    say(f"Listening on http://{host}:{receiver.server_port}; requests are {how}. Control-C ends.")
    with receiver:
        try:
            receiver.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            say("")


class _Printer:
    """Prints events, one after the other, until there were enough or nobody reads them."""

    def __init__(self, limit: int | None):
        self._left = limit
        self._one_at_a_time = Lock()

    def take(self, _key: str | None, items: list[Any]) -> bool:
        """Print; whether to go on."""
        with self._one_at_a_time:
            try:
                for item in items[: self._left]:
                    sys.stdout.write(json.dumps(item, ensure_ascii=False) + "\n")
                sys.stdout.flush()
            except BrokenPipeError:
                return False
            if self._left is not None:
                self._left = max(0, self._left - len(items))
            return self._left != 0
