"""What is posted: any receiver can read it."""

from __future__ import annotations

import gzip

import pytest

from trunkline.broker.webhook_messages import zipped

ALIKE = b'{"id":1,"topic":"orders.made","payload":{"n":1}},'


@pytest.mark.parametrize("size", [0, 1, 249, 250, 251, 1_000, 32_506, 32_507, 100_000, 1_000_000])
def test_what_was_compressed_comes_out_as_it_was(size: int) -> None:
    content = (ALIKE * (size // len(ALIKE) + 1))[:size]
    assert gzip.decompress(zipped(content)) == content


@pytest.mark.parametrize("size", [1_500, 30_000, 300_000])
def test_a_small_window_finds_what_a_large_one_does(size: int) -> None:
    beginning = bytes(range(256))
    content = beginning + bytes(number * number % 251 for number in range(size)) + beginning
    assert len(zipped(content)) <= 1.02 * len(gzip.compress(content, 6))


def test_the_same_content_is_compressed_to_the_same_bytes() -> None:
    assert zipped(ALIKE) == zipped(ALIKE)
