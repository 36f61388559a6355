"""A newcomer with files of their own: every answer is right, or a refusal that names the cure."""

from __future__ import annotations

import csv
import json
import random

import pytest

from colonnade.cli import main

ROWS = 300
FORMS = ("{:05d}", "C {}", "aB{}", "Ab{}", "Zürich-{}", "{}")


@pytest.fixture(scope="module")
def people():
    """An odd id, and two numbers for each of two parties."""
    draw = random.Random(1)
    return [
        (FORMS[i % len(FORMS)].format(i), *(draw.gauss(0, 1) for _ in range(4)))
        for i in range(ROWS)
    ]


def judged(people, label):
    return [(key, a, b, label(a + c)) for key, a, b, c, _ in people]


def seen(people):
    """The other party's rows, in an order of their own."""
    rows = [(key, c, d) for key, _, _, c, d in people]
    random.Random(2).shuffle(rows)
    return rows


def job(folder, bank, telco, train=""):
    for name, head, rows in (("bank", "customer,a,b,y", bank), ("telco", "key,c,d", telco)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head.split(","), *rows])
    path = folder / "job.toml"
    path.write_text(
        f"[train]\nepochs = 10\nbatch_size = 32\n{train}\n"
        '[parties.bank]\nrole = "active"\ntable = "bank.csv"\nid = "customer"\nlabel = "y"\n'
        'columns = ["a", "b"]\n[parties.telco]\ntable = "telco.csv"\nid = "key"\n'
    )
    return path


def run(path, capsys):
    assert main(["simulate", str(path), "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(path, capsys):
    assert main(["simulate", str(path), "--quiet"]) == 2
    return capsys.readouterr().err


def test_odd_ids_in_another_order_are_matched(people, tmp_path, capsys):
    bank = judged(people, lambda score: "good" if score > 0 else "bad")
    summary = run(job(tmp_path, bank, seen(people)), capsys)
    assert summary["metric"]["test"] > 0.9
    assert summary["classes"] == ["bad", "good"]


def test_text_labels_of_several_classes_keep_their_names(people, tmp_path, capsys):
    bank = judged(people, lambda score: ("low", "mid", "high")[(score > -0.7) + (score > 0.7)])
    summary = run(job(tmp_path, bank, seen(people)), capsys)
    assert summary["classes"] == ["high", "low", "mid"]
    assert summary["metric"]["test"] > 0.6


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows[5:], "set alignment = 'private' in the job"),
        (lambda rows: [*rows, rows[0]], "keep one row per id"),
        (lambda rows: [("", *rows[0][1:]), *rows[1:]], "fill the ids in"),
        (lambda rows: [(f" {key} ", *rest) for key, *rest in rows], "different ids"),
    ],
    ids=["too few", "twice", "none", "spaces"],
)
def test_ids_that_do_not_match_are_refused_with_the_cure(
    change, sentence, people, tmp_path, capsys
):
    bank = judged(people, lambda score: int(score > 0))
    assert sentence in refused(job(tmp_path, bank, change(seen(people))), capsys)


def test_whole_numbers_that_differ_in_every_row_are_no_classes(people, tmp_path, capsys):
    bank = judged(people, lambda score: round(250_000 + 80_000 * score))
    said = refused(job(tmp_path, bank, seen(people)), capsys)
    assert "distinct values in" in said and "train.loss = 'mse'" in said


def test_large_targets_are_told_to_be_scaled(people, tmp_path, capsys):
    bank = judged(people, lambda score: round(250_000 + 80_000 * score))
    path = job(tmp_path, bank, seen(people), train='loss = "mse"')
    main(["simulate", str(path)])
    assert "standardise them first" in capsys.readouterr().err
