"""Hints of the database, in words of commands and options."""

from __future__ import annotations

import pytest

from trunkline.cli.dialect import hint_in_our_words, message_in_our_words
from trunkline.cli.main import tree


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("Create it with log_create().", "Create it with trunkline log create."),
        (
            "Turn it on: log_alter(topic, archive => true).",
            "Turn it on: trunkline log alter TOPIC --archive.",
        ),
        (
            "Go on after it: broker_seek() with up_to => 7, lane => 0.",
            "Go on after it: trunkline broker seek with --to 8, --lane 0.",
        ),
        ("Begin after it: from_position => 8, lane => 0.", "Begin after it: --from 8, --lane 0."),
        ("Name the columns in key_columns.", "Name the columns in --key."),
        ("Call broker_join(), or now().", "Call broker_join(), or now()."),
    ],
)
def test_a_hint_names_commands_and_options(hint: str, told: str) -> None:
    assert hint_in_our_words(hint, tree()) == told


def test_a_message_keeps_what_it_quotes() -> None:
    quoted = 'there is no topic "max_events", and no setting log.max_events, got f(a => 1).'
    assert message_in_our_words(quoted) == quoted
    assert message_in_our_words("max_events is at least 1.") == "--limit is at least 1."
