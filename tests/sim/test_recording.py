"""Recording a training keeps what crossed and moves nothing; an audit of it says what that told."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
import torch

import colonnade as cn
from colonnade import methods
from colonnade.cli import main
from colonnade.job import load
from colonnade.privacy.audit import audit as audit_recordings
from colonnade.privacy.recorded import read_recording
from colonnade.run.audit import audit, save_audit
from colonnade.run.setup import prepare
from colonnade.run.simulate import simulate_prepared
from colonnade.testing.stores import MemoryStore
from tests.golden import METHODS, digest
from tests.small import small, with_network

ROUNDS = 12


def trained(method, record=None, **train):
    case = small(3, method=METHODS[method], rounds=ROUNDS, labels="shared", seed=1, **train)
    case.job = with_network(case.job, latency="5ms")
    return case, cn.simulate(case.job, case.data, case.modules, record=record)


@pytest.mark.parametrize("method", METHODS)
def test_recording_moves_nothing_and_has_every_row_that_crossed(method):
    case, kept = trained(method, record=ROUNDS)
    _, plain = trained(method)
    assert digest(kept.weights) == digest(plain.weights)
    assert {name: party.ledger for name, party in kept.parties.items()} == {
        name: party.ledger for name, party in plain.parties.items()
    }
    assert all(
        party.card.recorded is None and not party.traffic for party in plain.parties.values()
    )
    snapshots = methods.build(METHODS[method]).exchange.sends_snapshots
    active, passives = case.job.active, case.job.passives
    from_memory = _recordings(kept)
    for name in passives:
        own = from_memory[name]
        sent, seen = own.streams["sent", active, "embedding"], from_memory[active]
        there = seen.streams["received", name, "embedding"]
        # Some may be under way at the end, and are never looked at.
        assert np.array_equal(there.values, sent.values[: len(there.values)])
        assert np.array_equal(there.rows, sent.rows[: len(there.rows)])
        assert np.array_equal(own.columns.of(sent.ids), _columns(case, name)[sent.ids])
        assert own.labels is None
        reply = ("received", active, "labels" if snapshots else "gradient")
        assert reply in own.streams
        assert kept.parties[name].card.recorded.tensors == _tensors(own)
    if snapshots:
        assert ("sent", "*", "labels") in from_memory[active].streams


def _columns(case, name):
    return case.x(name).float().numpy()


def _tensors(recording):
    return sum(len(np.unique(each.batch)) for each in recording.streams.values())


def _recordings(run):
    import safetensors.numpy

    from colonnade.privacy.recorded import recording_of

    return {
        name: recording_of(name, map(safetensors.numpy.load, party.traffic))
        for name, party in run.parties.items()
    }


def test_what_is_recorded_is_what_the_receiver_reads():
    """Compressed on the way, and the same at both ends."""
    options = {"name": "fedsgd", "compress": {"embedding": "scalar:4", "gradient": "half"}}
    case = small(2, method=options, rounds=4)
    own = _recordings(cn.simulate(case.job, case.data, case.modules, record=4))
    active, (passive,) = case.job.active, case.job.passives
    for way, back, what in (("sent", "received", "embedding"), ("received", "sent", "gradient")):
        mine = own[passive].streams[way, active, what]
        theirs = own[active].streams[back, passive, what]
        assert np.array_equal(mine.values, theirs.values) and len(mine.values)


def evaluated(**more):
    method = {"name": "fedsgd"} | more
    options = {"validation": 0.25, "evaluate_every": "4 rounds", "full_loss": True}
    return small(3, "agg" if more else "split", method=method, rounds=ROUNDS, seed=1, **options)


def test_evaluations_are_kept_with_the_columns_of_their_rows():
    case = evaluated()
    kept = cn.simulate(case.job, case.data, case.modules, record=ROUNDS + 1)
    plain = cn.simulate(case.job, case.data, case.modules)
    assert digest(kept.weights) == digest(plain.weights)
    active, own = case.job.active, _recordings(kept)
    assert own[active].rounds == ROUNDS
    for name in case.job.passives:
        parts, there = own[name].by_split(), own[active].by_split()
        assert list(parts) == ["train", "validation", "test"]
        for split, part in parts.items():
            columns = case.data.features[name].part(split)
            sent = part.streams["sent", active, "evaluation"]
            assert sent.releases == (1 if split == "test" else ROUNDS // 4)
            assert sent.ids.tolist() == list(range(len(columns)))
            assert np.array_equal(part.columns.of(sent.ids), columns.astype(np.float32))
            came = there[split].streams["received", name, "evaluation"]
            assert np.array_equal(came.values, sent.values)
    found = audit(kept, known=5).findings
    assert {each.split for each in found if each.of == "columns"} == set(parts)
    # Training, and evaluation on the training rows, are releases of the same rows.
    trained = own[name].streams["sent", active, "embedding"].counts
    (releases,) = {e.releases for e in found if (e.party, e.split) == (name, "train")}
    assert releases == trained.max() + ROUNDS // 4


def test_evaluations_of_later_rounds_are_not_kept():
    case = evaluated()
    own = _recordings(cn.simulate(case.job, case.data, case.modules, record=5))
    for each in own.values():
        assert list(each.evaluated) == ["validation"]
        assert {int(of.round.max()) for of in each.evaluated["validation"].streams.values()} == {3}


def test_uploads_are_attacked_with_what_follows():
    case = small(3, method={"name": "vafl", "start": "upload"}, rounds=ROUNDS, seed=1)
    run = cn.simulate(case.job, case.data, case.modules, record=1)
    own, active = _recordings(run), case.job.active
    for name in case.job.passives:
        upload = own[name].streams["sent", active, "upload"]
        assert len(upload.ids) == len(_columns(case, name))
        (found,) = {each.rows for each in audit(run, party=name, known=10**6).findings}
        assert found == -(-len(upload.ids) // 2)


SUM = {"sum": "pairwise:32:20"}


def test_under_masks_the_sum_is_kept_and_each_partys_own_part_and_no_words():
    case = evaluated(protect=SUM)
    kept = cn.simulate(case.job, case.data, case.modules, record=ROUNDS + 1)
    plain = cn.simulate(case.job, case.data, case.modules)
    assert digest(kept.weights) == digest(plain.weights)
    active, passives, own = case.job.active, case.job.passives, _recordings(kept)
    for split, part in own[active].by_split().items():
        added = part.streams["received", "*", "sum"]
        parts = [own[name].by_split()[split] for name in passives]
        assert {kind for of in parts for _, _, kind in of.streams} <= {"summand", "gradient"}
        summands = [of.streams["sent", active, "summand"] for of in parts]
        assert all(np.array_equal(added.rows, of.rows) for of in summands)
        total = sum(of.values.astype(np.float64) for of in summands)
        assert np.abs(added.values - total).max() < 2**-20 * len(passives)
        assert np.abs(added.values - summands[0].values).max() > 0.01


def test_sums_are_attacked_where_all_parties_are_in_one_place(tmp_path, capfd, monkeypatch):
    # As wide as a table is where nobody has said how wide the terminal is.
    monkeypatch.setenv("COLUMNS", "150")
    case = evaluated(protect=SUM)
    run = cn.simulate(case.job, case.data, case.modules, record=ROUNDS + 1)
    folder, active, (first, *_) = run.save(tmp_path), case.job.active, case.job.passives
    columns = [each for each in audit(run, known=10).findings if each.of == "columns"]
    assert {(each.source, each.to) for each in columns} == {("sum", active)}
    assert {(each.party, each.split) for each in columns} == {
        (name, split) for name in case.job.passives for split in ("train", "validation", "test")
    }
    assert main(["privacy", str(folder), "--known", "10"]) == 0
    shown = capfd.readouterr().out
    assert "from the sum" in shown and "of sums" in shown
    assert main(["privacy", str(folder / "parties" / first), "--known", "10"]) == 0
    shown = capfd.readouterr().out
    assert "if it had the embeddings of all" in shown
    assert f"{first} does not know that sum" in shown
    assert main(["privacy", str(folder / "parties" / active), "--known", "10"]) == 0
    assert "in one place" in capfd.readouterr().out


def test_what_a_party_knows_of_labels_under_masks_is_tried_too():
    """The active party does not see its embeddings, and the party itself does."""
    case = evaluated(protect=SUM)
    run = cn.simulate(case.job, case.data, case.modules, record=ROUNDS)
    found = {each.attack for each in audit(run, known=10).findings if each.of == "labels"}
    assert {"completion", "combined"} <= found


def test_under_encryption_what_was_encrypted_is_kept_and_what_is_decrypted_attacked():
    method = {"name": "fedsgd", "protect": {"cipher": "paillier:2048"}}
    options = {"loss": "taylor", "evaluate_every": "3 rounds", "validation": 0.2}
    case = small(4, "agg", True, method=method, rounds=6, **options)
    run = cn.simulate(case.job, case.data, case.modules, record=7)
    active, (first, *_), own = case.job.active, case.job.passives, _recordings(run)
    kinds = {name: {key[2] for key in of.streams} for name, of in own.items()}
    # The active party reads nothing of the training, and has the truth about its rows.
    assert not kinds.pop(active) and own[active].labels is not None
    assert set(map(tuple, map(sorted, kinds.values()))) == {("gradient", "sealed")}
    found = audit(run, known=10).findings
    labels = {(each.to, each.attack) for each in found if each.of == "labels"}
    assert labels >= {(name, "spectral") for name in case.job.passives}
    columns = {(each.source, each.split) for each in found if each.of == "columns"}
    assert columns == {("sum", "validation"), ("sum", "test")}
    alone = audit_recordings({first: own[first]}, 10)
    assert {(each.source, each.split) for each in alone.findings} == {
        ("sealed", "train"), ("summand", "validation"), ("summand", "test")
    }  # fmt: skip
    assert alone.verdict[0].startswith(f"If {active} had the key, it could tell")
    assert any("gradients that they decrypt" in what for what in alone.not_tested)


def test_only_the_first_rounds_are_kept():
    _, run = trained("fedsgd", record=3)
    assert {own.rounds for own in _recordings(run).values()} == {3}


def test_rounds_that_are_done_again_are_kept_twice(tmp_path):
    case = small(2, rounds=ROUNDS, checkpoint_every=4)
    stores = {name: MemoryStore() for name in case.job.parties}
    done = []

    def attempt(stop_after):
        parties = prepare(case.job, case.data, case.modules)
        kept = {name: own.recording(99, tmp_path / name) for name, own in parties.items()}
        done.clear()
        simulate_prepared(
            kept,
            stores=stores,
            observers=[done.append],
            should_stop=lambda: len(done) > stop_after,
        )
        return kept

    attempt(13)
    (passive,) = case.job.passives
    before = read_recording(passive, tmp_path / passive)
    assert before.rounds < ROUNDS
    kept = attempt(10**6)
    for name, own in kept.items():
        own.recorder.flush()
        found = read_recording(name, tmp_path / name)
        rounds = found.streams["sent", *_peer(case, name)].round
        assert set(rounds) == set(range(ROUNDS))
    assert found is not None


def _peer(case, name):
    (passive,) = case.job.passives
    return (passive, "gradient") if name == case.job.active else (case.job.active, "embedding")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    run = cn.simulate(load("breast-cancer", ["train.epochs=3"]), record=100)
    return run, run.save(folder)


def test_a_run_in_memory_and_its_folder_are_audited_alike(recorded):
    run, folder = recorded
    found = audit(run, known=50)
    assert found == audit(folder, known=50)
    by_attack = {(each.party, each.attack): each for each in found.findings}
    spectral = by_attack["hospital", "spectral"]
    assert spectral.pooled.accuracy > 0.95 > spectral.baseline.accuracy + 0.2
    assert by_attack["hospital", "completion"].baseline_is == "the same from its own columns"
    assert by_attack["lab", "ridge"].pooled.r2 > 0.5
    assert abs(by_attack["lab", "ridge"].control.r2) < 0.1


def test_a_party_is_audited_by_itself(recorded):
    _, folder = recorded
    alone = audit(folder / "parties" / "hospital", known=50)
    assert not alone.covered[0].kinds["sent"].keys() - {"gradient"}
    assert {each.party for each in alone.findings} == {"hospital"}
    assert {each.baseline_is for each in alone.findings} == {"the commonest class"}
    assert any("only they can say" in sentence for sentence in alone.verdict)
    (lab,) = {each.party for each in audit(folder, party="lab", known=50).findings}
    assert lab == "lab"


def test_labels_that_are_shared_are_told_outright():
    _, run = trained("cvfl", record=ROUNDS)
    found = audit(run, known=5)
    told = [each for each in found.findings if each.of == "labels" and each.attack == "none needed"]
    assert len(told) == 2 and all(each.pooled.accuracy == 1 for each in told)
    # With snapshots the active party's embeddings leave too, to everybody.
    assert {(each.party, each.to) for each in found.findings if each.of == "columns"} >= {
        ("p1", "*")
    }


def test_labels_drawn_in_the_place_of_others_are_audited_for_the_true_ones():
    """Who tells every label that was drawn is right about the true one as often as the draw."""
    job = load("breast-cancer", ["train.epochs=3"], "fedsgd")
    job = msgspec.structs.replace(job, method=job.method | {"protect": {"labels": "flip:2"}})
    found = {each.attack: each for each in audit(cn.simulate(job, record=100)).findings}
    rows = found["spectral"].rows
    kept = np.exp(2) / (1 + np.exp(2))
    most = kept + 3 * np.sqrt(kept * (1 - kept) / rows)
    assert 0.7 < found["spectral"].pooled.accuracy < most
    assert found["norm"].pooled.accuracy < most and found["direction"].pooled.accuracy < most


def test_the_folder_of_a_run_says_what_it_holds(recorded, capfd):
    _, folder = recorded
    card = json.loads((folder / "parties" / "lab" / "model.json").read_text())
    assert card["recorded"]["tensors"] > 0
    assert main(["inspect", str(folder), "--party", "lab"]) == 0
    assert "in traffic" in capfd.readouterr().out


def test_an_audit_is_shown_printed_and_kept(recorded, capfd):
    _, folder = recorded
    assert main(["privacy", str(folder), "--known", "50"]) == 0
    shown = capfd.readouterr().out
    assert "lab can tell nearly all of hospital's labels" in shown and "Not tested" in shown
    assert "rows sent: 1,227 of embeddings, 252 for evaluation" in shown
    assert main(["privacy", str(folder), "--known", "50", "--json"]) == 0
    printed, told = capfd.readouterr()
    printed, total = json.loads(printed), len(json.loads(printed)["findings"])
    assert told.splitlines()[-1].startswith(f"attack {total} of {total}: ")
    assert main(["privacy", str(folder), "--known", "50", "--json", "--quiet"]) == 0
    assert capfd.readouterr().err == ""
    kept = json.loads((folder / "privacy.json").read_text())
    assert printed == kept and kept["format"] == 1
    assert (folder / "privacy.json").stat().st_mode & 0o777 == 0o600


def test_a_run_that_is_simulated_again_without_recording_keeps_no_old_one(tmp_path):
    job = load("breast-cancer", ["train.rounds=2"])
    cn.simulate(job, record=2).save(tmp_path)
    assert read_recording("lab", tmp_path / "parties" / "lab") is not None
    cn.simulate(job).save(tmp_path)
    assert read_recording("lab", tmp_path / "parties" / "lab") is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulate", "breast-cancer", "--record", "5"], "--out"),
        (["simulate", "breast-cancer", "--record", "0", "--out", "x"], "1 or more"),
        (["launch", "breast-cancer", "--record", "5"], "--out"),
        (["privacy", "nowhere"], "no folder"),
        (["privacy", ".", "--known", "0"], "1 or more"),
    ],
)
def test_a_wrong_request_is_one_sentence(words, said, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert said in capfd.readouterr().err


def test_a_run_without_a_recording_says_how_to_make_one(tmp_path, capfd):
    cn.simulate(load("breast-cancer", ["train.rounds=2"])).save(tmp_path)
    assert main(["privacy", str(tmp_path)]) == 2
    assert "--record" in capfd.readouterr().err


def test_wrong_arguments_are_refused(recorded):
    with pytest.raises(cn.RequestError, match="record is 0"):
        cn.simulate("breast-cancer", record=0)
    with pytest.raises(cn.RequestError, match="give out"):
        cn.launch("breast-cancer", record=5)
    with pytest.raises(cn.RequestError, match="no recording of nobody"):
        audit(recorded[0], party="nobody")
    with pytest.raises(cn.RequestError, match="of type int"):
        audit(3)


def test_an_audit_survives_its_file(recorded, tmp_path):
    found = audit(recorded[0], known=20)
    save_audit(found, tmp_path)
    text = (tmp_path / "privacy.json").read_bytes()
    assert msgspec.json.decode(text, type=type(found)) == found
    assert torch.get_num_threads() >= 1


def test_a_comparison_puts_what_is_told_beside_what_it_costs(tmp_path, capfd):
    words = ["--methods", "fedsgd,fedbcd:updates=2", "--seeds", "0", "--workers", "1", "--privacy"]
    sets = ["--set", "train.epochs=2", "--out", str(tmp_path)]
    assert main(["compare", "breast-cancer", *words, *sets]) == 0
    shown, told = capfd.readouterr()
    assert "run 2 of 2: fedbcd" in told and told.count("labels told") == 2
    assert "labels" in shown and "told, R²" in shown and "of the labels by none" in shown
    rows = json.loads((tmp_path / "comparison.json").read_text())["methods"]
    assert all(row["labels_told_mean"] > 0.9 and row["columns_told_mean"] > 0.5 for row in rows)
    (folder,) = (tmp_path / "runs" / "fedsgd").iterdir()
    assert (folder / "privacy.json").exists() and not list(folder.glob("parties/*/traffic"))
    assert json.loads((folder / "parties" / "lab" / "model.json").read_text())["recorded"] is None
