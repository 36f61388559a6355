"""A stage tells the recorder what others can read, and what was hidden from them."""

from __future__ import annotations

import numpy as np
import torch
from safetensors.torch import load

from colonnade.compress import Occasion, parse
from colonnade.learn.outbound import Outbound
from colonnade.protect.base import Protect
from colonnade.protect.secret import Secret
from colonnade.protect.sum import pairwise
from colonnade.record.traffic import Recorder

ROWS = np.array([3, 1])
OWN = {"train": {"labels": torch.arange(5)}, "test": {"columns": torch.ones(5, 2)}}


class Masked:
    """Hides every number."""

    private = None

    def hide(self, tensor, round, *use):
        return torch.zeros(tensor.shape, dtype=torch.int32)


def kept(recorder):
    recorder.flush()
    found = {}
    for piece in recorder.pieces:
        found |= load(piece)
    return found


def outbound(recorder, **more):
    return Outbound(0, "telco", Secret(bytes(32)), recorder=recorder, **more)


def test_of_a_tensor_under_masks_what_it_was_before_is_recorded():
    recorder = Recorder(9, OWN, "bank")
    out = outbound(recorder, protect=Protect(sum=pairwise(32)), masks=Masked())
    stage, tensor = out.stage("embedding"), torch.tensor([[1.5], [2.5]])
    assert not stage.pack(tensor, Occasion(4, ROWS)).data.view.tobytes().strip(b"\0")
    assert kept(recorder)["0:sent:bank:summand:4"].tolist() == tensor.tolist()


def test_of_a_tensor_that_is_encrypted_what_it_was_before_is_recorded():
    class Private:
        def encrypt(self, tensor):
            return torch.zeros(64, dtype=torch.uint8)

    masks, recorder = Masked(), Recorder(9, OWN, "bank")
    masks.private = Private()
    out = outbound(recorder, protect=Protect(sum=pairwise(32)), masks=masks)
    tensor = torch.tensor([[1.5], [2.5]])
    assert out.stage("embedding").pack(tensor, Occasion(4, ROWS)).dtype == "uint8"
    out.stage("evaluation").pack(tensor, Occasion(4), part=("test", ROWS))
    found = kept(recorder)
    assert found["0:sent:bank:sealed:4"].tolist() == tensor.tolist()
    assert found["1:sent:bank:summand:4:test"].tolist() == tensor.tolist()


def test_of_ciphertexts_only_the_truth_about_their_rows_is_recorded():
    recorder = Recorder(9, OWN, "bank")
    stage = outbound(recorder).stage("gradient", to="shop")
    stage.pack(torch.ones(64, dtype=torch.uint8), Occasion(4, ROWS))
    assert {name: value.tolist() for name, value in kept(recorder).items()} == {
        "own:labels:0": [3, 1],
        "own:labels:0:rows": [3, 1],
    }


def test_an_evaluation_goes_to_the_active_party_whatever_its_piece_is_called():
    recorder = Recorder(9, OWN, "bank")
    stage = outbound(recorder).stage("evaluation", parse("half"), "test 4096")
    stage.pack(torch.full((2, 2), 1 + 2**-20), Occasion(4), part=("test", ROWS))
    found = kept(recorder)
    # As its receiver reads it.
    assert found["0:sent:bank:evaluation:4:test"].tolist() == [[1.0, 1.0]] * 2
    assert found["own:columns:0:test:rows"].tolist() == [3, 1]


def test_what_stands_for_no_rows_and_later_rounds_are_not_recorded():
    recorder = Recorder(4, OWN, "bank")
    stage = outbound(recorder).stage("embedding")
    stage.pack(torch.ones(2, 1), Occasion(3))
    stage.pack(torch.ones(2, 1), Occasion(4, ROWS))
    stage.pack(torch.ones(2, 1))
    assert recorder.summary().tensors == 0
