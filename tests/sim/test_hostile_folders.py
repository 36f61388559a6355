"""A run folder may come from anybody: reading it runs nothing, waits for nothing, and takes no
memory that it was not known to need."""

from __future__ import annotations

import json
import os
import shutil
import struct
import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import colonnade as cn
from colonnade.errors import ColonnadeError, RequestError
from colonnade.job import load
from colonnade.learn.saved import Bottom, Head, read_saved
from colonnade.record.card import Card, from_json
from colonnade.record.inspection import inspect
from colonnade.record.reading import shapes_of

MEMORY_BYTES = 2**26


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return cn.simulate(load("breast-cancer", ["train.epochs=1"])).save(folder)


@pytest.fixture
def own(trained, tmp_path):
    """A copy of a party's part."""
    return shutil.copytree(trained / "parties" / "hospital", tmp_path / "hospital")


class Trap:
    """What unpickling would run."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def change(own, **fields):
    path = own / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def refused(own, said):
    """Neither scoring nor looking gets anywhere, and both say why in a sentence."""
    with pytest.raises(ColonnadeError, match=said):
        saved = read_saved(own, "hospital")
        Bottom(saved)
        Head(saved)
    inspect(own.parent if own.parent.name == "parties" else own, None)


def test_pickled_weights_are_not_unpickled(own, tmp_path):
    mark = tmp_path / "ran"
    torch.save({"bottom.weight": Trap(mark)}, own / "best.safetensors")
    change(own, hashes={})
    refused(own, "damaged, or no weights")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["os:system", "subprocess:getoutput", "colonnade.cli:main"])
def test_code_that_a_card_names_is_not_run(own, name):
    change(own, model={"name": name})
    refused(own, "code from outside")


def test_a_top_model_that_a_card_names_is_not_run(own):
    change(own, top={"kind": "module", "module": "os:getcwd"})
    with pytest.raises(ColonnadeError, match="code from outside"):
        Head(read_saved(own, "hospital"))


def header(shapes, data=b""):
    text = json.dumps(shapes).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(shape, offsets=(0, 0), dtype="F32"):
    return {"bottom.weight": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 2**40) + b"{}",
        header(tensor([2**31, 2**31], (0, 2**64 - 1))),
        header(tensor([2**62, 2**62], (0, 2**63 - 1))),
        header(tensor([-1], (0, 4)), bytes(4)),
        header(tensor([1], (0, 4), "F99"), bytes(4)),
        header(tensor([1], (4, 8)), bytes(8)),
        header(tensor([1] * 40, (0, 4)), bytes(4)),
        header(tensor([2], (0, 4)), bytes(4)),
        header({"a": 1}),
        header(tensor([1], (0, 4)), bytes(9)),
    ],
    ids=lambda content: f"{len(content)}-{content[8:40]!r}"[:40],
)
def test_weights_whose_header_is_a_lie_are_refused(own, content):
    (own / "best.safetensors").write_bytes(content)
    change(own, hashes={})
    refused(own, "damaged, or no weights")


@given(st.binary(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_weights_or_are_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "best.safetensors"
    path.write_bytes(struct.pack("<Q", len(content)) + content)
    with pytest.raises(RequestError, match="no weights"):
        assert shapes_of(path) != {}
        raise AssertionError("random bytes became weights")


def sparse(path, size):
    path.unlink()
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize(
    "name", ["model.json", "preprocessing.json", "classes.json", "best.safetensors"]
)
def test_ten_gigabytes_of_nothing_are_refused_before_they_are_read(own, name):
    sparse(own / name, 10 * 2**30)
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match=r"bytes, more than|no weights"):
            read_saved(own, "hospital")
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "name", ["model.json", "preprocessing.json", "classes.json", "best.safetensors"]
)
def test_links_and_pipes_are_not_followed(own, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    (own / name).rename(elsewhere)
    (own / name).symlink_to(elsewhere)
    with pytest.raises(RequestError, match="no plain file"):
        read_saved(own, "hospital")
    (own / name).unlink()
    os.mkfifo(own / name)
    with pytest.raises(RequestError, match=r"no plain file|holds no model"):
        read_saved(own, "hospital")


@pytest.mark.parametrize("name", ["best.safetensors", "preprocessing.json", "classes.json"])
def test_a_file_that_was_changed_or_is_gone_shows(own, name):
    content = bytearray((own / name).read_bytes())
    content[-2] ^= 1
    (own / name).write_bytes(content)
    with pytest.raises(RequestError, match=f"{name} is not the file .* hash differs"):
        read_saved(own, "hospital")
    (found,) = inspect(own)["parties"]
    assert f"{name} differs from what model.json says" in found["problems"]
    (own / name).unlink()
    with pytest.raises(RequestError, match=f"{name} cannot be read"):
        read_saved(own, "hospital")
    (found,) = inspect(own)["parties"]
    assert f"{name} is missing" in found["problems"]


@pytest.mark.parametrize(
    "fields",
    [
        {"run": "../../etc"},
        {"round": -9},
        {"row_shape": [1] * 99},
        {"row_shape": [-5]},
        {"rows": {"train": -1}},
        {"parent": "\x1b[2J"},
        {"hashes": {"../../x": "0" * 64}},
        {"hashes": {"best.safetensors": "x"}},
        {"alignment": {"common": "x", "count": -1}},
        {"calibration": {"scale": -1.0, "shift": 0.0}},
        {"widths": {"hospital": 8, "lab\x1b": 8}},
        {"widths": {"hospital": 8} | {f"p{n}": 1 for n in range(2000)}},
    ],
    ids=str,
)
def test_a_card_with_what_no_model_has_is_refused(own, fields):
    change(own, **fields)
    with pytest.raises(RequestError, match="that no model has"):
        read_saved(own, "hospital")


NAMES = st.text("abc-_0", min_size=1, max_size=5)


@given(
    st.dictionaries(NAMES, st.integers(0, 99), max_size=3),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    st.dictionaries(NAMES, st.dictionaries(NAMES, st.floats(allow_nan=False)), max_size=2),
)
def test_every_card_survives_its_file(widths, types, measured):
    finite = {k: {n: v for n, v in m.items() if abs(v) < 1e300} for k, m in measured.items()}
    card = Card(job="j", party="bank", active="bank", run="4f" * 16, round=0)
    card = replace(card, widths={"bank": 1} | widths, types=types, measured=finite)
    assert from_json(card.to_json().encode(), "model.json") == card
