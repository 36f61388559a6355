"""Before the first round of a method with a table, every row is uploaded exactly once."""

from __future__ import annotations

import pytest

from colonnade import simulate
from colonnade.errors import BreachError
from colonnade.party.world import Work
from colonnade.wire.messages import Upload
from tests.small import small


def uploading(places):
    """A passive party that uploads these rows, each a start and a number."""

    async def upload(world, agreement, learner):
        (active,) = world.peers
        for start, rows in places if world.me == "p2" else HONEST:
            packed = await world.compute(lambda: learner.upload(start, rows), Work.FORWARD)  # noqa: B023
            await world.send(active, Upload(start, packed))

    return upload


HONEST = [(start, 8) for start in range(0, 48, 8)]


def run(monkeypatch, places):
    monkeypatch.setattr("colonnade.party.passive.upload", uploading(places))
    case = small(3, rounds=4, method={"name": "vafl", "start": "upload"})
    return simulate(case.job, case.data, case.modules)


def test_every_row_once_is_what_is_due(monkeypatch):
    assert run(monkeypatch, HONEST).status == "end"


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([(0, 8), (0, 8), *HONEST[2:]], "8 rows from 0 on, where 8 from 8 on are due"),
        ([*HONEST[:2], *HONEST[3:], (0, 8)], "8 rows from 24 on, where 8 from 16 on are due"),
        ([(0, 8), (4, 8)], "8 rows from 4 on, where 8 from 8 on are due"),
        ([(8, 8), (0, 8), *HONEST[2:]], "8 rows from 8 on, where 8 from 0 on are due"),
        ([(0, 4), (4, 4), *HONEST[1:]], "4 rows from 0 on, where 8 from 0 on are due"),
        ([(0, 48)], "48 rows from 0 on, where 8 from 0 on are due"),
    ],
)
def test_rows_twice_or_left_out_are_a_breach(monkeypatch, places, said):
    with pytest.raises(BreachError, match=f"p2 uploaded {said}: every row once") as found:
        run(monkeypatch, places)
    assert found.value.peer == "p2"


def test_more_than_all_is_not_due(monkeypatch):
    with pytest.raises(BreachError, match="p2 sent a message that is not due, of kind Upload"):
        run(monkeypatch, [*HONEST, (0, 8)])
