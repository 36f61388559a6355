"""The same job and seed give the same run, in one process and in two."""

from __future__ import annotations

import hashlib
import json
import subprocess

import torch

from colonnade import load, simulate
from tests.warm import python

SETS = ["train.epochs=2", "network.jitter=20ms", "parties.*.model.dropout=0.2"]


def fingerprint() -> str:
    """Everything a run records, in one hash."""
    torch.set_num_threads(1)
    run = simulate(load("digits", SETS, method="fedbcd"))
    digest = hashlib.sha256(json.dumps([run.history, run.losses, run.summary()]).encode())
    for party in run.parties.values():
        digest.update(json.dumps([party.ledger, list(party.spans)]).encode())
        for weights in (party.weights, party.best_weights):
            for name, tensor in weights.items():
                digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def test_twice_in_one_process_and_in_two():
    first = fingerprint()
    torch.manual_seed(12345)  # the state of torch's own generator must not matter
    torch.rand(7)
    assert fingerprint() == first
    command = "from tests.sim.test_deterministic import fingerprint; print(fingerprint())"
    other = subprocess.run(
        [python(), "-c", command], capture_output=True, text=True, check=True, timeout=250
    )
    assert other.stdout.strip() == first


def test_a_run_leaves_torchs_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    simulate(load("digits", [*SETS, "train.rounds=2"]))
    assert torch.equal(torch.rand(3), expected)


def test_another_seed_gives_another_run():
    runs = [simulate(load("digits", ["train.rounds=2"], seed=seed)) for seed in (0, 1)]
    assert runs[0].losses != runs[1].losses


def test_dropout_of_one_party_does_not_depend_on_another():
    """Each party draws from its own stream: taking dropout from one changes only through the
    messages, so with a single round the other's weights after it are the same."""
    with_both = simulate(load("digits", ["train.rounds=1", "parties.lab.model.dropout=0.5"]))
    again = simulate(
        load(
            "digits",
            ["train.rounds=1", "parties.lab.model.dropout=0.5", "parties.insurer.model.bias=false"],
        )
    )
    first = with_both.parties["lab"].ledger
    assert first == again.parties["lab"].ledger
