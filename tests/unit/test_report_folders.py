"""What a report is refused on, and what each folder is said to be."""

from __future__ import annotations

import pytest

from colonnade.errors import RequestError
from colonnade.page.folders import runs_of


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["claims.json"], r"holds a reproduction, which keeps no runs: read its page\.md"),
        (["sweep.json"], "holds a sweep, which keeps no curves"),
        ([], "a sweep, a race or a reproduction that is not at its end: start the same command"),
    ],
    ids=["reproduction", "sweep", "not at its end"],
)
def test_studies_without_runs_are_refused_with_what_they_are(tmp_path, files, said):
    (tmp_path / "points").mkdir()
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(RequestError, match=said):
        runs_of(tmp_path)
