"""What the dashboard says of the runs of a folder, also of those that nobody should trust."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.dashboard import finding, plans
from colonnade.dashboard.finding import Place, check_root, find
from colonnade.dashboard.rows import row_of
from colonnade.dashboard.tail import PIECE_BYTES, Position, read_ends, read_lines, read_piece
from colonnade.errors import JobError, RequestError
from colonnade.record.live import FILE
from tests.dashboards import House, going, line, rounds, train

EVIL = "<script>alert(1)</script>\x1b[31m"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    train(root / "first")
    train(root / "study" / "runs" / "pasta" / "seed-1", method="pasta", seed=1)
    train(root / "other", "breast-cancer")
    return root


def row(folder):
    return row_of(Place("0" * 16, folder.resolve(), folder.name)).row


def test_runs_are_found_at_any_depth_with_what_they_came_to(runs):
    found = House(runs).rows()
    assert set(found) == {"first", "other", "study/runs/pasta/seed-1"}
    first = found["first"]
    assert (first["job"], first["method"], first["seed"]) == ("digits", "fedsgd", 0)
    assert (first["status"], first["rounds"], first["clock"]) == ("end", 4, "virtual")
    summary = json.loads((runs / "first" / "summary.json").read_text())
    assert first["bytes"] == summary["bytes"]["total"]
    assert first["time_s"] == summary["time_s"]
    assert (first["metric"], first["value"]) == ("accuracy", summary["metric"]["test"])
    assert found["study/runs/pasta/seed-1"]["seed"] == 1


def test_a_run_that_goes_on_says_how_far_it_is_and_one_that_was_killed_that_it_was(tmp_path):
    live = going(tmp_path / "live")
    for event in rounds(0, 5):
        live(event)
    found = row(tmp_path / "live")
    assert (found.status, found.rounds, found.rounds_all) == ("running", 5, 100)
    assert (found.job, found.method, found.seed) == ("digits", "pasta", 3)
    assert (found.metric, found.value, found.value_of) == ("accuracy", 1 - 1 / 6, "best")
    assert found.bytes == 10_000
    live.close(done=False)
    assert row(tmp_path / "live").status == "interrupted"


def test_a_row_is_read_again_only_where_something_changed(tmp_path):
    live = going(tmp_path / "live")
    place = Place("0" * 16, (tmp_path / "live").resolve(), "live")
    known = row_of(place)
    assert row_of(place, known) is known
    live(rounds(7, 8)[0])
    newer = row_of(place, known)
    assert newer.row.rounds == 8
    live.close(done=False)
    assert row_of(place, newer).row.status == "interrupted"


def test_a_party_folder_is_a_run_of_that_party(tmp_path):
    folder = tmp_path / "credit-telco"
    folder.mkdir()
    (folder / "job.toml").write_text('name = "credit"\nseed = 4\n[method]\nname = "celu"\n')
    facts = {"party": "telco", "status": "target", "rounds": 9, "time_s": 2.5}
    (folder / "party.json").write_text(json.dumps(facts))
    found = row(folder)
    assert (found.party, found.status, found.rounds, found.time_s) == ("telco", "target", 9, 2.5)
    assert (found.job, found.method, found.seed, found.clock) == ("credit", "celu", 4, "wall")


@pytest.mark.parametrize("name", ["summary.json", "party.json"])
def test_a_run_of_a_newer_version_is_listed_with_the_cure(tmp_path, name):
    folder = tmp_path / "newer"
    folder.mkdir()
    (folder / name).write_text('{"format": 2, "rounds": "others than now"}')
    found = row(folder)
    assert found.status == "damaged"
    assert found.fault.startswith(f"{name} has format 2, written by a newer Colonnade")


HOSTILE = {
    "no JSON": ("summary.json", b"{"),
    "another type": ("summary.json", b'{"rounds": "many"}'),
    "a list": ("summary.json", b"[]"),
    "deep": ("summary.json", b"[" * 200_000),
    "no text": ("summary.json", b"\xff\xfe"),
    "huge": ("summary.json", b'{"job": "' + b"a" * 2**23 + b'"}'),
    "a party's": ("party.json", b'{"time_s": []}'),
    "no TOML": ("job.toml", b"a = ["),
    "deep TOML": ("job.toml", b"a" + b".a" * 5000 + b" = 1"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_folder_says_so_in_its_row_and_leaves_the_others_alone(name, tmp_path):
    bad, good = tmp_path / "bad", going(tmp_path / "good")
    bad.mkdir()
    file, content = HOSTILE[name]
    (bad / file).write_bytes(content)
    (bad / "parties").mkdir()
    found = House(tmp_path).rows()
    assert found["bad"]["status"] == "damaged"
    assert found["bad"]["fault"]
    assert str(tmp_path) not in found["bad"]["fault"]
    assert found["good"]["status"] == "running"
    good.close(done=False)


def test_a_number_that_no_browser_has_is_none(tmp_path):
    (tmp_path / "run").mkdir()
    content = b'{"rounds": 1' + b"0" * 400 + b', "seed": 18446744073709551615}'
    (tmp_path / "run" / "summary.json").write_bytes(content)
    assert House(tmp_path).rows()["run"]["rounds"] is None


def test_files_that_are_links_pipes_or_folders_are_not_read(tmp_path):
    (tmp_path / "secret.json").write_text('{"job": "secret"}')
    for name, make in {
        "link": lambda path: path.symlink_to(tmp_path / "secret.json"),
        "pipe": os.mkfifo,
        "folder": lambda path: path.mkdir(),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "party.json").write_text("{}")
        make(folder / "summary.json")
        found = row(folder)
        assert found.status == "damaged", name
        assert found.job is None
        make(folder / FILE)
        assert row(folder).status == "damaged"
        assert read_piece(folder / FILE, Position()) is None
        assert read_ends(folder / FILE) == []


def test_links_lead_nowhere(tmp_path):
    outside = tmp_path / "outside"
    going(outside / "run").close(done=False)
    root = tmp_path / "root"
    root.mkdir()
    (root / "linked").symlink_to(outside)
    going(root / "own").close(done=False)
    (root / "own" / "job.toml").symlink_to(outside / "run" / FILE)
    house = House(root)
    assert set(house.rows()) == {"own"}
    # One that becomes a link after it was found leads nowhere either.
    id_ = house.id("own")
    (root / "own").rename(root / "moved")
    (root / "own").symlink_to(outside / "run")
    reply = house.get(f"/api/report?run={id_}")
    assert reply.status_code == 404 or "link" in reply.json()["faults"][0]["fault"]


def test_the_walk_has_bounds_and_says_so(tmp_path, monkeypatch):
    deep = tmp_path
    for _ in range(finding.DEPTH_MAX + 2):
        deep = deep / "d"
    deep.mkdir(parents=True)
    going(deep / "run").close(done=False)
    for count in range(5):
        going(tmp_path / f"run-{count}").close(done=False)
    found = find(tmp_path)
    assert len(found.runs) == 5
    assert "left out" in found.notes[0]
    monkeypatch.setattr(finding, "RUNS_MAX", 3)
    found = find(tmp_path)
    assert len(found.runs) == 3
    assert "first 3 runs" in found.notes[-1]
    monkeypatch.setattr(finding, "FOLDERS_MAX", 2)
    assert "first 2 folders" in find(tmp_path).notes[-1]


def test_what_is_no_run_is_not_listed(tmp_path):
    for name, file in {
        "aligned": "alignment.json",
        "study": "sweep.json",
        "notes": "a.txt",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("{}")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "summary.json").write_text("{}")
    assert find(tmp_path).runs == {}


def test_the_list_says_what_folders_hold_that_are_no_runs(tmp_path):
    signs = {"aligned": "alignment.json", "tuned": "sweep.json", "raced": "race.json",
             "scored": "prediction.json", "paper": "claims.json"}  # fmt: skip
    for name, file in signs.items():
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        for each in ("job.toml", file):
            (tmp_path / name / each).write_text("")
    # The updates of an alignment have folders of their own, and so do alignments that go on.
    (tmp_path / "aligned" / "updates" / "1").mkdir(parents=True)
    (tmp_path / "aligned" / "updates" / "1" / "party.json").write_text('{"program": "align"}')
    (tmp_path / "going" / "work").mkdir(parents=True)
    (tmp_path / "going" / "checkpoints").mkdir()
    (tmp_path / "going" / "job.toml").write_text("")
    found = find(tmp_path)
    assert found.runs == {}
    for name, what in (("aligned", "an alignment"), ("tuned", "a sweep"), ("raced", "a race"),
                       ("scored", "predictions"), ("paper", "a reproduction")):  # fmt: skip
        assert any(note.startswith(f"{name} holds {what}") for note in found.notes), found.notes
    for number in range(30):
        (tmp_path / f"sweep-{number}").mkdir()
        (tmp_path / f"sweep-{number}" / "sweep.json").write_text("{}")
    assert find(tmp_path).notes[-1] == "15 more folders hold something else than runs."


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(RequestError, match="there is no folder"):
        check_root(finding.Path("no such folder"))


def test_lines_are_read_once_and_half_a_line_when_it_is_whole(tmp_path):
    path = tmp_path / FILE
    first, second = (line(each) for each in rounds(0, 1))
    path.write_text(first + second[:10])
    piece = read_piece(path, Position())
    assert [each["type"] for each in piece.said] == ["RoundDone"]
    assert piece.anew
    path.write_text(first + second)
    again = read_piece(path, piece.position)
    assert [each["type"] for each in again.said] == ["Evaluated"]
    assert not again.anew
    assert read_piece(path, again.position).said == []


def test_another_file_in_its_place_is_read_from_the_beginning(tmp_path):
    path = tmp_path / FILE
    path.write_text(line(rounds(0, 1)[0]) * 3)
    piece = read_piece(path, Position())
    other = tmp_path / "other"
    other.write_text(line(rounds(5, 6)[0]))
    other.replace(path)
    again = read_piece(path, piece.position)
    assert again.anew
    assert [each["round"] for each in again.said] == [5]


@given(st.binary(max_size=300))
def test_any_bytes_are_lines_to_skip(content):
    for said in read_lines(content):
        assert isinstance(said["type"], str)


@settings(max_examples=30)
@given(st.integers(1, 2000), st.integers(1, 50))
def test_a_file_is_read_whole_piece_by_piece(count, size):
    text = "".join(line(each) for each in rounds(0, 40))[: count * size].encode()
    path = finding.Path(os.environ.get("TMPDIR", "/tmp")) / f"live-{os.getpid()}.jsonl"
    path.write_bytes(text)
    try:
        piece, seen = read_piece(path, Position()), []
        seen += piece.said
        while piece.more:
            piece = read_piece(path, piece.position)
            seen += piece.said
        assert seen == read_lines(text[: text.rfind(b"\n") + 1])
        assert len(text) <= PIECE_BYTES or piece.position.offset > 0
    finally:
        path.unlink()


def test_a_line_without_end_does_not_stop_the_reading(tmp_path):
    path = tmp_path / FILE
    path.write_bytes(b"x" * (PIECE_BYTES + 10) + b"\n" + line(rounds(3, 4)[0]).encode())
    piece = read_piece(path, Position())
    while piece.more:
        piece = read_piece(path, piece.position)
    assert [each["round"] for each in piece.said] == [3]


def test_markup_and_escapes_in_a_folder_are_plain_text(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    summary = {"job": EVIL, "method": {"name": EVIL}, "status": EVIL, "metric": {"name": EVIL}}
    (folder / "summary.json").write_text(json.dumps(summary))
    reply = House(tmp_path).get("/api/runs")
    assert "\x1b" not in reply.text
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_plans_name_the_command_and_run_no_code_of_a_job_file(tmp_path):
    (tmp_path / "evil").mkdir()
    job = '[parties.a]\nrole = "active"\n[parties.b]\n[method]\nname = "os:getcwd"\n'
    (tmp_path / "evil" / "job.toml").write_text(job)
    (tmp_path / "mine.toml").write_text(plans.builtin_text("digits"))
    (tmp_path / "party.toml").write_text('table = "x.csv"\n')
    house = House(tmp_path)
    jobs = {job["name"]: job["id"] for job in house.get("/api/jobs").json()["jobs"]}
    assert "digits" in jobs and "mine.toml" in jobs
    assert not {"party.toml", "evil/job.toml"} & set(jobs)
    reply = house.get("/api/plan", params={"job": jobs["mine.toml"], "rows": "1000"}).json()
    assert reply["rows"] == 1000
    method = reply["methods"][0]
    assert method["epoch_s"] > 0
    assert method["command"].startswith(f"colonnade simulate {tmp_path.resolve()}/mine.toml ")
    evil = next(place for place in find(tmp_path.resolve()).jobs.values() if "evil" in place.name)
    refused = house.get("/api/plan", params={"job": evil.id})
    assert refused.status_code == 422
    assert "--allow" in refused.json()["error"] or "allow" in refused.json()["error"]


@pytest.mark.parametrize("rows", ["0", "-1", "a", "1e3", "9" * 30, "²"])
def test_rows_that_are_no_number_are_refused(rows):
    with pytest.raises(RequestError, match="whole number"):
        plans.read_rows(rows)


def test_a_job_that_would_take_too_long_to_plan_is_refused(tmp_path):
    text = plans.builtin_text("digits").replace("batch_size = 64", "batch_size = 1")
    place = Place("1", (tmp_path / "job.toml").resolve(), "job.toml")
    place.path.write_text(text)
    with pytest.raises(JobError, match="colonnade plan"):
        plans.planned("1", {"1": place}, 10**9)
    with pytest.raises(RequestError, match="no such job"):
        plans.planned("2", {"1": place}, 10)
