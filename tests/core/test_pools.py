"""How often a pool looks for its server."""

from __future__ import annotations

from trunkline.core.pools import Attempt


def test_a_server_that_is_away_is_looked_for_every_second_until_patience_ends() -> None:
    attempt, now, tries = Attempt(10), 100.0, 0
    while not attempt.time_to_give_up(now):
        attempt.update_delay(now)
        assert 0 < attempt.delay <= (0.1 if tries == 0 else 1.0)
        now += attempt.delay
        tries += 1
    assert 110 <= now <= 111
    assert tries >= 10
