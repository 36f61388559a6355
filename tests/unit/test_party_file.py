"""Party files: what a party keeps to itself, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from colonnade import Job, JobError, Party, RequestError, Train, methods, simulate
from colonnade.job import dumps, load, loads
from colonnade.job.party_file import (
    PartyFile,
    Tls,
    draw_seed,
    exposure,
    find_party,
    load_party,
    own_job,
    public_job,
)
from colonnade.job.policy import Policy
from colonnade.party.kinds import training_kinds
from colonnade.policies.view import Role
from colonnade.wire.messages import CONTROL, KINDS
from tests.small import small, with_network

WHOLE = """
table = "rows/telco.parquet"
table_test = "rows/later.parquet"
id = "id"
columns = ["calls", "plan*"]
categorical = ["region"]
model = { name = "mine:tower", embedding = 8 }
optimizer = { name = "adam", lr = 0.01 }
schedule = { name = "StepLR", step_size = 3 }
device = "cuda:0"
seed = 12345

[tls]
certificate = "keys/cert.pem"
key = "keys/key.pem"
authority = "keys/ca.pem"
server_name = "bank.example"

[tls.names]
bank = ["bank.example", "CN-bank"]

[policy]
kinds = ["Embedding", "EvaluationEmbedding"]
receive = ["Gradient", "Evaluate"]
batch_min = 32
width_max = 16
rounds_max = 5000
peers = ["bank"]
"""


def write(folder, text, name="party.toml"):
    path = folder / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_everything_a_party_file_may_say(tmp_path):
    file = load_party(write(tmp_path, WHOLE))
    assert file.table == str(tmp_path / "rows" / "telco.parquet")
    assert file.table_test == str(tmp_path / "rows" / "later.parquet")
    assert (file.id, file.columns, file.device, file.seed) == ("id", ["calls", "plan*"], "cuda:0",
                                                               12345)  # fmt: skip
    assert file.tls == Tls(
        certificate=str(tmp_path / "keys" / "cert.pem"),
        key=str(tmp_path / "keys" / "key.pem"),
        authority=str(tmp_path / "keys" / "ca.pem"),
        server_name="bank.example",
        names={"bank": ["bank.example", "CN-bank"]},
    )
    assert file.policy == Policy(
        kinds=frozenset({"Embedding", "EvaluationEmbedding"}),
        receive=frozenset({"Gradient", "Evaluate"}),
        batch_min=32,
        width_max=16,
        rounds_max=5000,
        peers=frozenset({"bank"}),
    )


def test_an_empty_file_says_nothing(tmp_path):
    assert load_party(write(tmp_path, "")) == PartyFile()
    assert Policy().shares_labels is False


def test_files_lie_beside_the_party_file_and_columns_do_not(tmp_path):
    file = load_party(write(tmp_path, "label = 'y.npy'\nlabel_test = 'late.npy'\nid = 'a.npy'"))
    assert (file.label, file.label_test) == (str(tmp_path / "y.npy"), str(tmp_path / "late.npy"))
    assert file.id == "a.npy"
    assert load_party(write(tmp_path, "label = 'bought'")).label == "bought"
    assert load_party(write(tmp_path, "table = '/far/x.csv'")).table == "/far/x.csv"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colums = []", "unknown key 'colums': did you mean 'columns'"),
        ("columns = 'a'", "columns: expected array"),
        ("columns = [1]", "columns.*: expected str"),
        ("seed = 'x'", "seed: expected int"),
        ("seed = -1", "seed is not from 0"),
        ("seed = 9223372036854775808", "seed is not from 0"),
        ("data = 'digits'\ntable = 'x.csv'", "both data and table"),
        ("step = 'proximal:1'", "'step' is for all parties to see: put it into the job file"),
        ("role = 'active'", "'role' is for all parties to see"),
        ("width = 3", "'width' is for all parties to see"),
        ("[compress]\nembedding = 'half'", "'compress' is for all parties to see"),
        ("tls = 3", "tls: expected object"),
        ("[tls]\nkey = 'k.pem'", "belong together: give both"),
        ("[tls]\nkey = 3", r"tls\.key: expected str"),
        ("[tls]\ncertificat = 'k.pem'", r"unknown key 'certificat' in \[tls\]: did you mean"),
        ("[tls.names]\nbank = []", r"tls\.names\.bank has no name"),
        ("[tls.names]\nbank = 'x'", r"tls\.names.*: expected array"),
        ("[policy]\nkinds = ['Embeding']", "'Embeding': did you mean 'Embedding'"),
        ("[policy]\nreceive = ['Gradients']", r"policy\.receive .* did you mean 'Gradient'"),
        ("[policy]\nkinds = 'all'", r"policy\.kinds: expected array"),
        ("[policy]\nbatch_min = 0", r"policy\.batch_min is 0: give 1 or more"),
        ("[policy]\nmax_rounds = 5", r"unknown key 'max_rounds' in \[policy\]: did you mean"),
        ("[policy]\nshares_labels = 1", r"policy\.shares_labels: expected bool"),
        ("columns = [", "is not valid TOML"),
    ],
)
def test_a_wrong_party_file_gets_a_sentence(tmp_path, text, words):
    path = write(tmp_path, text)
    with pytest.raises(JobError, match=words) as error:
        load_party(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_secret_seed_is_not_repeated_in_an_error(tmp_path):
    with pytest.raises(JobError) as error:
        load_party(write(tmp_path, "seed = -987654321"))
    assert "987654321" not in str(error.value)


def test_a_missing_party_file_is_a_request_error(tmp_path):
    with pytest.raises(RequestError, match="there is no party file"):
        load_party(tmp_path / "none.toml")


def test_party_files_are_found_in_their_order(tmp_path, monkeypatch):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    job = write(there, "", "job.toml")
    assert find_party(job, "telco") is None
    for path in (
        here / "party.toml",
        here / "telco.toml",
        there / "party.toml",
        there / "telco.toml",
    ):
        path.touch()
        assert find_party(job, "telco").resolve() == path
    assert find_party("digits", "telco").resolve() == here / "telco.toml"


def test_a_party_file_that_came_with_a_job_does_not_silently_go_before_one_s_own(
    tmp_path, monkeypatch, capsys
):
    from colonnade.cli import main

    theirs, mine = tmp_path / "from-partner", tmp_path / "mine"
    theirs.mkdir()
    mine.mkdir()
    monkeypatch.chdir(mine)
    (theirs / "job.toml").write_text('data = "digits"\n[parties.bank]\nrole = "active"\n'
                                     '[parties.telco]\n')  # fmt: skip
    (theirs / "telco.toml").write_text("seed = 42\n")
    (mine / "party.toml").write_text("[policy]\nrounds_max = 10\n")
    words = ["join", str(theirs / "job.toml"), "--me", "telco", "--dry-run"]
    assert main(words) == 2
    assert "say with --party which is yours" in capsys.readouterr().err


def test_a_job_file_is_no_party_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = write(tmp_path, "", "telco.toml")
    assert find_party(job, "telco") is None
    monkeypatch.chdir(job.parent)
    assert find_party("telco.toml", "telco") is None


def test_a_readable_seed_is_warned_of(tmp_path):
    path = write(tmp_path, "seed = 4")
    file = load_party(path)
    assert exposure(path, file) is None
    for mode in (0o640, 0o604, 0o644):
        path.chmod(mode)
        assert f"chmod 600 {path}" in exposure(path, file)
        assert exposure(path, PartyFile()) is None


def test_seeds_are_drawn_anew_each_time():
    assert len({draw_seed() for _ in range(20)}) == 20


def test_a_party_sees_its_own_entry_and_what_is_public_of_others():
    job = load(
        "digits", ["parties.*.width=16", "parties.*.step=proximal:0.1", "parties.lab.seed=3"]
    )
    own = own_job(job, "lab", None)
    assert own.parties["lab"] == job.parties["lab"]
    assert own.parties["clinic"] == Party(role="active", width=16, step="proximal:0.1")
    assert own.parties["insurer"] == Party(width=16, step="proximal:0.1")
    for field in ("train", "top", "method", "timeouts", "seed", "data"):
        assert getattr(own, field) == getattr(job, field)
    assert "strip" not in dumps(public_job(job))


def test_a_party_file_wins_over_the_job():
    job = load("digits", ["parties.lab.seed=3", "parties.lab.width=16"])
    file = PartyFile(optimizer={"name": "adam"}, view="left", device="cuda:1", seed=9)
    lab = own_job(job, "lab", file).parties["lab"]
    assert (lab.optimizer, lab.view, lab.device, lab.seed) == (
        {"name": "adam"},
        "left",
        "cuda:1",
        9,
    )
    assert (lab.model, lab.width) == (job.parties["lab"].model, 16)


def test_a_party_file_may_take_columns_away():
    job = load("credit")
    assert own_job(job, "bank", PartyFile(columns=[])).parties["bank"].columns == []


@pytest.mark.parametrize(
    ("file", "data", "kept"),
    [
        ({}, "credit", {"table": "j.csv", "table_test": "t.csv", "id": "i", "label": "y"}),
        ({"table": "x.csv"}, None, {"table": "x.csv", "id": "i", "label": "y"}),
        ({"table": "x.csv", "id": "k"}, None, {"table": "x.csv", "id": "k", "label": "y"}),
        ({"label": "y.npy"}, None, {"id": "i", "label": "y.npy"}),
        ({"label": "z"}, "credit", {"table": "j.csv", "table_test": "t.csv", "id": "i",
                                    "label": "z"}),
        ({"data": "adult"}, "adult", {}),
    ],
)  # fmt: skip
def test_rows_come_from_one_place(file, data, kept):
    entry = Party(
        role="active", table="j.csv", table_test="t.csv", id="i", label="y", columns=["a"]
    )
    job = Job(parties={"bank": entry, "telco": Party()}, data="credit")
    own = own_job(job, "bank", PartyFile(**file))
    assert own.data == data
    assert own.parties["bank"] == Party(role="active", columns=["a"], **kept)


def test_whose_file_it_is_must_be_a_party():
    with pytest.raises(JobError, match="the job has no party 'labb': did you mean 'lab'"):
        own_job(load("digits"), "labb", None)
    with pytest.raises(JobError, match="lab is passive and cannot have a label"):
        own_job(load("digits"), "lab", PartyFile(label="y"))


JOB = Job(
    parties={"bank": Party(role="active"), "telco": Party(), "lab": Party()},
    train=Train(batch_size=32),
)


def refusal(policy, job=JOB, me="telco", sends=("Embedding",), receives=("Gradient",), **more):
    facts = {"rows": 320, "rounds": 100, "width": 16} | more
    own = Policy(**policy)
    without_data = own.refuse_job(job, me, sends=sends, receives=receives)
    return without_data or own.refuse_data(job.train, **facts)


@pytest.mark.parametrize(
    ("policy", "facts", "words"),
    [
        ({"batch_min": 33}, {}, "policy.batch_min is 33 and train.batch_size 32"),
        ({"batch_min": 32}, {"rows": 330}, "the last batch of an epoch has 10 rows"),
        ({"width_max": 15}, {}, "policy.width_max is 15 and the embedding is 16 wide"),
        ({"rounds_max": 99}, {}, "policy.rounds_max is 99 and the job has 100 rounds"),
        ({"in_flight_max": 8}, {"in_flight": 16}, "policy.in_flight_max is 8 and the method may"),
        ({"peers": frozenset({"bank"})}, {}, "policy.peers does not list lab"),
        ({"peers": frozenset({"lab"})}, {}, "policy.peers does not list bank"),
        ({"kinds": frozenset({"Upload"})}, {}, "policy.kinds does not list Embedding"),
        ({"receive": frozenset()}, {}, "policy.receive does not list Gradient"),
        ({}, {"sends": ("Labels",)}, "policy.shares_labels is false"),
        ({"shares_labels": True, "kinds": frozenset({"Gradient"})}, {"sends": ("Labels",)},
         "policy.kinds does not list Labels"),
    ],
)  # fmt: skip
def test_a_policy_refuses_a_job_with_a_sentence(policy, facts, words):
    sentence = refusal(policy, **facts)
    assert sentence is not None
    assert sentence.startswith(words) or words in sentence
    assert ": " in sentence


def test_a_policy_takes_what_is_within_it():
    assert refusal({}) is None
    assert refusal({"batch_min": 32, "width_max": 16, "rounds_max": 100}) is None
    assert refusal({"in_flight_max": 16}, in_flight=16) is None
    assert refusal({"batch_min": 10}, rows=330) is None
    assert refusal({"peers": frozenset({"bank", "lab", "other"})}) is None
    assert refusal({"kinds": frozenset({"Embedding"}), "receive": frozenset({"Gradient"})}) is None
    assert refusal({"shares_labels": True}, sends=("Labels",)) is None
    whole = msgspec.structs.replace(JOB, train=Train(batch_size=32, drop_last=True))
    assert refusal({"batch_min": 32}, whole, rows=330) is None


def test_what_starts_and_ends_a_job_is_never_forbidden():
    strict = Policy(kinds=frozenset(), receive=frozenset())
    for kind in KINDS:
        assert (strict.refuse(kind) is None) == (kind in CONTROL)
        assert (strict.refuse_received(kind) is None) == (kind in CONTROL)
    assert {"Hello", "Finish", "Failure"} <= CONTROL
    assert not CONTROL & {"Embedding", "Gradient", "Snapshot", "Labels", "Upload", "Evaluate"}


METHODS = [
    *({"name": name} for name in methods.known()),
    {"name": "vafl", "quorum": "anyone:upload"},
]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("every", ["2 rounds", "never"])
def test_the_kinds_of_a_method_are_those_that_cross(method, every):
    case = small(3, rounds=4, method=method, labels="shared", evaluate_every=every)
    run = simulate(with_network(case.job, latency="50ms"), case.data, case.modules)
    for name, party in run.parties.items():
        role = Role.ACTIVE if name == case.job.active else Role.PASSIVE
        needed = training_kinds(methods.build(method), case.job.train, role)
        sends, receives = needed.names()
        for direction, expected in (("sent", sends), ("received", receives)):
            crossed = {entry["kind"] for entry in party.ledger if entry["direction"] == direction}
            # Lines are measured again only where they change.
            assert crossed - CONTROL == set(expected) - {"Calibrate"}


def test_the_three_hosts_of_the_documentation_fit_together(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "party-files.md"
    blocks = page.read_text().split("```toml\n")[1:5]
    job, *files = [block.split("```")[0] for block in blocks]
    public = loads(job)
    for me, text in zip(("bank", "telco", "insurer"), files, strict=True):
        file = load_party(write(tmp_path, text, f"{me}.toml"))
        own = own_job(public, me, file)
        role = Role.ACTIVE if me == own.active else Role.PASSIVE
        sends, receives = training_kinds(methods.build(own.method), own.train, role).names()
        assert file.policy.refuse_job(own, me, sends=sends, receives=receives) is None
        facts = {"rows": 4000, "rounds": 1240, "width": 8}
        assert file.policy.refuse_data(own.train, **facts) is None
        assert own.parties[me].model["embedding"] == 8
        assert own.parties[me].width in (None, 8)
