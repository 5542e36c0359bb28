"""The entry point of the package: it imports nothing slow before Control-C is met quietly."""

import signal


def run() -> None:
    """Run the command that the words of this process name, and exit."""
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has begun that must be ended
    from trunkline.cli import main

    signal.signal(signal.SIGINT, interrupted)
    main.run()
