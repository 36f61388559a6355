"""Every attack finds what there is to find, and nothing where there is nothing."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.privacy.audit import audit
from colonnade.privacy.columns import ATTACKS, column_attacks
from colonnade.privacy.completion import completion
from colonnade.privacy.direction import direction
from colonnade.privacy.findings import Figures, Finding, class_figures, column_figures
from colonnade.privacy.labels import label_attacks
from colonnade.privacy.norm import norm
from colonnade.privacy.pooling import draw, features
from colonnade.privacy.recorded import Own, Recording, Stream
from colonnade.privacy.spectral import spectral
from colonnade.privacy.verdict import level, verdict

ROWS, WIDTH, BATCH = 2000, 6, 100


def crossed(values_of, passes=1, seed=0):
    """What crosses in some passes over the rows, batch by batch: values of a pass and its rows."""
    rng = np.random.default_rng(seed)
    tensors = []
    for number in range(passes):
        order = rng.permutation(ROWS)
        for start in range(0, ROWS, BATCH):
            rows = order[start : start + BATCH]
            tensors.append((len(tensors), rows, values_of(number, rows)))
    return Stream.of(tensors)


def labels_of(share, seed=1):
    return (np.random.default_rng(seed).random(ROWS) < share).astype(np.int64)


def gradients(labels, noise=0.0, passes=1):
    """As a linear top model gives them, with probabilities that differ from row to row."""
    rng = np.random.default_rng(2)
    weights = rng.normal(size=WIDTH)
    said = np.clip(labels.mean() + 0.1 * rng.normal(size=ROWS), 0.01, 0.99)

    def values(number, rows):
        turned = weights + 0.05 * number
        made = np.outer(said[rows] - labels[rows], turned)
        return made + noise * rng.normal(size=made.shape)

    return crossed(values, passes)


def audit_labels(*given):
    return [step.run() for step in label_attacks(*given)]


def audit_columns(recording, known, others=None):
    return [step.run() for step in column_attacks(recording, known, others or {})]


def told(scores, labels):
    return class_figures(np.stack([-scores, scores], axis=1), labels)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7, 0.9])
def test_the_length_of_a_gradient_tells_the_rarer_class(share):
    labels = labels_of(share)
    assert told(norm(gradients(labels), labels.mean()), labels).auc > 0.99


def test_gradients_of_one_length_tell_nothing_by_it():
    labels = labels_of(0.3)
    sent = gradients(labels)
    sent.values[:] /= np.linalg.norm(sent.values, axis=1, keepdims=True)
    assert abs(told(norm(sent, 0.3), labels).auc - 0.5) < 0.05


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_the_line_of_the_gradients_tells_every_label(share):
    labels = labels_of(share)
    examples = np.array([np.argmin(labels), np.argmax(labels)])
    assert told(spectral(gradients(labels), share, examples), labels).accuracy > 0.99


def test_what_noise_hides_in_one_release_shows_in_many():
    labels = labels_of(0.3)
    once, often = (gradients(labels, noise=3.0, passes=passes) for passes in (1, 30))
    one, many = (told(spectral(sent, labels.mean()), labels).auc for sent in (once, often))
    assert one < 0.85 and many > 0.97
    assert told(spectral(often.first(), labels.mean()), labels).auc < 0.85


def test_noise_that_is_larger_for_the_common_class_does_not_turn_the_classes_round():
    labels, rng = labels_of(0.3), np.random.default_rng(9)

    def values(number, rows):
        made = np.outer(0.5 - labels[rows], np.ones(WIDTH))
        spread = np.where(labels[rows] == 1, 0.1, 2.0)
        return made * (1 + spread * rng.normal(size=len(rows)))[:, None]

    sent = crossed(values, passes=10)
    assert told(spectral(sent, labels.mean()), labels).auc > 0.9


def test_noise_alone_has_no_line():
    labels = labels_of(0.3)
    noise = crossed(
        lambda number, rows: np.random.default_rng(len(rows)).normal(size=(len(rows), 4))
    )
    assert abs(told(spectral(noise, 0.3), labels).auc - 0.5) < 0.05


@pytest.mark.parametrize("classes", [2, 5])
def test_one_row_of_each_class_tells_the_others_by_direction(classes):
    rng = np.random.default_rng(3)
    labels = rng.integers(classes, size=ROWS)
    centres = rng.normal(size=(classes, WIDTH))
    sent = crossed(
        lambda number, rows: centres[labels[rows]] + 0.1 * rng.normal(size=(BATCH, WIDTH))
    )
    examples = np.array([np.argmax(labels == each) for each in range(classes)])
    assert class_figures(direction(sent, examples), labels).accuracy > 0.95
    empty = crossed(lambda number, rows: rng.normal(size=(BATCH, WIDTH)))
    assert abs(class_figures(direction(empty, examples), labels).auc - 0.5) < 0.05


@pytest.mark.parametrize("classes", [2, 4])
def test_a_few_labels_complete_an_embedding_that_knows_them(classes):
    rng = np.random.default_rng(4)
    labels = rng.integers(classes, size=ROWS)
    embedding = rng.normal(size=(classes, WIDTH))[labels] + 0.3 * rng.normal(size=(ROWS, WIDTH))
    known = draw(ROWS, 200)
    guess = completion(embedding[known], labels[known], embedding[~known], classes)
    assert class_figures(guess, labels[~known]).auc > 0.95
    mixed = rng.permutation(labels)
    guess = completion(embedding[known], mixed[known], embedding[~known], classes)
    assert abs(class_figures(guess, mixed[~known]).auc - 0.5) < 0.05


def test_known_rows_of_one_class_say_that_class():
    assert completion(np.ones((3, 2)), np.ones(3, np.int64), np.ones((2, 2)), 3).tolist() == [
        [0, 1, 0],
        [0, 1, 0],
    ]


@pytest.mark.parametrize("name", ATTACKS)
def test_columns_are_rebuilt_from_embeddings_that_hold_them(name):
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(ROWS, 3))
    embedding = columns @ rng.normal(size=(3, WIDTH))
    known = draw(ROWS, 300)
    found = ATTACKS[name](embedding[known], columns[known], embedding[~known])
    assert column_figures(found, columns[~known]).r2 > 0.95
    other = rng.normal(size=(ROWS, 3))
    found = ATTACKS[name](embedding[known], other[known], embedding[~known])
    assert abs(column_figures(found, other[~known]).r2) < 0.03


@pytest.mark.parametrize("name", ATTACKS)
def test_who_knows_one_row_says_that_all_are_like_it(name):
    found = ATTACKS[name](np.ones((1, 3)), np.array([[5.0, 7.0]]), np.zeros((4, 3)))
    assert found == pytest.approx(np.array([[5.0, 7.0]] * 4))


def test_a_network_undoes_what_a_line_does_not():
    rng = np.random.default_rng(6)
    columns = rng.normal(size=(ROWS, 1))
    embedding = np.concatenate([np.sin(2 * columns), np.cos(2 * columns), columns**3], axis=1)
    known = draw(ROWS, 500)
    by_line, by_network = (
        column_figures(attack(embedding[known], columns[known], embedding[~known]), columns[~known])
        for attack in ATTACKS.values()
    )
    assert by_network.r2 > max(by_line.r2, 0.9)


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True), min_size=1))
@settings(max_examples=50)
def test_every_release_of_a_row_has_its_number(batches):
    values = iter(range(1000))
    tensors = [
        (number, np.array(rows), np.array([[next(values)] for _ in rows]))
        for number, rows in enumerate(batches)
    ]
    stream = Stream.of(tensors)
    lines = {row: stream.values[stream.rows == row, 0].tolist() for row in stream.ids}
    for row, own in lines.items():
        assert own == sorted(own)
        assert stream.release[stream.rows == row].tolist() == list(range(len(own)))
    assert features(stream, one=True)[:, 0].tolist() == [own[-1] for own in lines.values()]
    assert stream.first_values()[:, 0].tolist() == [own[0] for own in lines.values()]
    joined = np.concatenate([values for _, values in stream.batches()])
    assert np.array_equal(joined, stream.values)


def recording(labels, sent, **more):
    streams = {("sent", "telco", "gradient"): sent} if sent is not None else {}
    own = Own(np.arange(ROWS), labels)
    return Recording("bank", streams | more.pop("streams", {}), own, **more)


def test_an_audit_says_what_an_attack_found_and_that_chance_would_not():
    labels = labels_of(0.3)
    found = {
        each.attack: each
        for each in audit_labels(recording(labels, gradients(labels)), "telco", 100)
    }
    assert set(found) == {"norm", "spectral", "direction"}
    for each in found.values():
        assert each.pooled.accuracy > 0.95 and each.baseline.accuracy < 0.75
        assert abs(each.control.balanced - 0.5) < 0.05 and abs(each.control.auc - 0.5) < 0.05
    sentence, *_ = audit({"bank": recording(labels, gradients(labels))}).verdict
    assert sentence.startswith("telco can tell nearly all of bank's labels")


def test_a_party_that_knows_no_labels_has_none_to_audit():
    silent = Recording("telco", {}, None, Own(np.arange(ROWS), np.ones((ROWS, 2), np.float32)))
    assert audit_labels(silent, "bank", 10) == []
    assert audit_columns(silent, 10) == []


def test_quantities_are_told_by_r2():
    rng = np.random.default_rng(7)
    amounts = rng.normal(size=ROWS).astype(np.float32)
    pushed = crossed(lambda number, rows: np.outer(amounts[rows], [1.0, 2.0]))
    embedding = crossed(lambda number, rows: rng.normal(size=(BATCH, 3)))
    own = recording(amounts, pushed, streams={("received", "telco", "embedding"): embedding})
    found = {each.attack: each for each in audit_labels(own, "telco", 100)}
    assert set(found) == {"completion", "combined"}
    assert found["combined"].pooled.r2 > 0.99 and abs(found["completion"].pooled.r2) < 0.05
    assert abs(found["combined"].control.r2) < 0.05


def test_what_the_attackers_own_columns_tell_is_no_leak():
    labels = labels_of(0.4)
    rng = np.random.default_rng(8)
    columns = (labels[:, None] + 0.1 * rng.normal(size=(ROWS, 2))).astype(np.float32)
    embedding = crossed(lambda number, rows: columns[rows])
    own = recording(labels, None, streams={("received", "telco", "embedding"): embedding})
    beside = Recording("telco", {}, columns=Own(np.arange(ROWS), columns))
    (alone,), (compared,) = (audit_labels(own, "telco", 200, known) for known in (None, beside))
    assert alone.leak > 0.9 and compared.leak < 0.05
    assert level(compared.leak) == "nothing"
    assert "does not prove" in verdict([compared], {})[0]


def test_a_leak_is_what_goes_beyond_the_baseline():
    assert Figures(auc=0.9).leak(Figures(auc=0.8)) == pytest.approx(0.5)
    assert Figures(auc=0.4).leak(Figures(auc=0.5)) == 0
    assert Figures().leak(Figures()) == 0
    assert [level(leak) for leak in (1.0, 0.5, 0.1, 0.01)] == [
        "nearly all",
        "much",
        "something",
        "nothing",
    ]


def test_a_control_that_is_off_is_said():
    figures = Figures(0.9, 0.9, 0.95)
    off = Finding(
        party="bank", of="labels", to="telco", attack="norm", needs="", rows=20, releases=1,
        one=figures, pooled=figures, baseline=Figures(0.5, 0.5, 0.5), baseline_is="",
        control=Figures(0.6, 0.6, 0.6),
    )  # fmt: skip
    assert any("too few rows" in sentence for sentence in verdict([off], {}))
    columns = {"of": "columns", "control": Figures(r2=-0.1), "pooled": Figures(r2=0.5),
               "one": Figures(r2=0.5), "baseline": Figures(r2=0.0)}  # fmt: skip
    wrong = msgspec.structs.replace(off, **columns, split="test")
    (said,) = [text for text in verdict([wrong], {}) if "too few rows" in text]
    assert "norm on bank's columns of test rows for telco" in said
    right = msgspec.structs.replace(wrong, control=Figures(r2=-0.02))
    assert not any("too few rows" in sentence for sentence in verdict([right], {}))


def passive(name, columns, **streams):
    own = Own(np.arange(ROWS), columns)
    return Recording(name, {("sent", "bank", kind): of for kind, of in streams.items()}, None, own)


def halves():
    """Two parties whose embeddings are their columns, and what the active one makes of both."""
    rng = np.random.default_rng(11)
    lab, shop = (rng.normal(size=(ROWS, 1)).astype(np.float32) for _ in range(2))
    added = {("received", "*", "sum"): crossed(lambda number, rows: (lab + shop)[rows])}
    parties = {
        name: passive(name, columns, summand=crossed(lambda number, rows, of=columns: of[rows]))
        for name, columns in (("lab", lab), ("shop", shop))
    }
    return parties, Recording("bank", added)


def test_from_a_sum_of_two_that_are_alike_half_of_each_is_told():
    parties, bank = halves()
    found = audit(parties | {"bank": bank}, known=500)
    assert {(each.party, each.to, each.source) for each in found.findings} == {
        (name, "bank", "sum") for name in parties
    }
    for each in found.findings:
        assert 0.45 < each.pooled.r2 < 0.55 and abs(each.control.r2) < 0.03
    assert "from the sum of the embeddings" in found.verdict[0]
    assert not any("sum" in what for what in found.not_tested)
    assert found.told()["columns"] == max(each.pooled.r2 for each in found.findings)


def test_who_audits_alone_supposes_that_the_others_told_theirs_and_says_so():
    parties, bank = halves()
    alone = audit({"lab": parties["lab"]}, known=500)
    assert {each.source for each in alone.findings} == {"summand"}
    assert all(each.pooled.r2 > 0.95 for each in alone.findings)
    assert alone.verdict[0].startswith(
        "If bank had the embeddings of all other passive parties, it could tell nearly all of lab's"
    )
    assert any("lab does not know that sum" in what for what in alone.not_tested)
    # It did not happen in this run, so that it is no leak of it.
    assert alone.told()["columns"] is None
    silent = audit({"bank": bank})
    assert not silent.findings
    assert any("in one place" in what for what in silent.not_tested)


def test_one_party_of_several_is_audited_with_what_the_others_have_recorded():
    parties, bank = halves()
    found = audit(parties | {"bank": bank}, known=500, parties=["shop"])
    assert {(each.party, each.source) for each in found.findings} == {("shop", "sum")}


def test_a_sum_of_rows_that_a_party_has_not_recorded_is_looked_at_without_them():
    parties, bank = halves()
    lab = parties["lab"]
    short = Recording("lab", lab.streams, None, Own(np.arange(600), lab.columns.values[:600]))
    found = audit({"lab": short, "bank": bank}, known=100, parties=["lab"])
    assert {each.rows for each in found.findings} == {500}


def test_evaluations_and_uploads_are_releases_like_others():
    rng = np.random.default_rng(12)
    columns = rng.normal(size=(ROWS, 2)).astype(np.float32)

    def noisy(number, rows):
        return columns[rows] + rng.normal(size=(len(rows), 2))

    streams = {kind: crossed(noisy) for kind in ("upload", "embedding", "evaluation")}
    own = passive("telco", columns, **streams)
    own.evaluated["test"] = passive("telco", -columns, evaluation=crossed(noisy, passes=4))
    found = {(each.attack, each.split): each for each in audit_columns(own, 500)}
    assert set(found) == {(name, split) for name in ATTACKS for split in ("train", "test")}
    train, test = found["ridge", "train"], found["ridge", "test"]
    # The share of the variance that the mean of so many draws has, with noise as large as it.
    assert train.releases == 3 and train.pooled.r2 == pytest.approx(3 / 4, abs=0.05)
    assert test.releases == 4 and test.pooled.r2 == pytest.approx(4 / 5, abs=0.05)
    assert all(each.one.r2 == pytest.approx(1 / 2, abs=0.05) for each in (train, test))
    sentences = verdict(list(found.values()), {})
    assert "telco's columns:" in sentences[0] and "telco's columns of test rows:" in sentences[1]


def test_what_the_active_party_cannot_read_is_attacked_as_its_receiver_has_recorded_it():
    """As where gradients leave encrypted: who decrypts them has them."""
    labels = labels_of(0.3)
    bank = Recording("bank", {}, Own(np.arange(ROWS), labels))
    embeddings = crossed(lambda number, rows: np.ones((len(rows), 2)) * labels[rows, None])
    telco = passive("telco", np.ones((ROWS, 2), np.float32), sealed=embeddings)
    telco.streams["received", "bank", "gradient"] = gradients(labels)
    both = audit({"bank": bank, "telco": telco}, known=100)
    found = {each.attack: each for each in both.findings}
    assert set(found) == {"norm", "spectral", "direction", "completion", "combined"}
    assert found["spectral"].pooled.accuracy > 0.95 and found["completion"].pooled.accuracy > 0.95
    assert any("the encryption, by which bank" in what for what in both.not_tested)
    alone = audit({"bank": bank})
    assert not alone.findings
    assert any("what others can tell of bank's labels" in what for what in alone.not_tested)
    (supposed,) = {each.source for each in audit({"telco": telco}, known=100).findings}
    assert supposed == "sealed"


def test_an_attacker_whose_own_columns_are_not_all_known_is_compared_with_the_commonest_class():
    labels = labels_of(0.4)
    embedding = crossed(lambda number, rows: labels[rows, None].astype(np.float32))
    own = recording(labels, None, streams={("received", "telco", "embedding"): embedding})
    short = Recording("telco", {}, columns=Own(np.arange(50), np.ones((50, 2), np.float32)))
    (found,) = audit_labels(own, "telco", 200, short)
    assert found.baseline_is == "the commonest class"


def test_an_audit_tells_how_far_it_is():
    labels, told = labels_of(0.3), []
    audit({"bank": recording(labels, gradients(labels))}, on_step=lambda *step: told.append(step))
    assert [(done, total) for done, total, _ in told] == [(0, 3), (1, 3), (2, 3)]
    assert told[0][2] == "norm on bank's labels by telco"


def test_of_very_wide_tensors_some_columns_are_looked_at():
    wide = crossed(lambda number, rows: np.zeros((len(rows), 3000), np.float32))
    assert features(wide, one=True).shape == (ROWS, 1024)


def test_rows_that_are_each_a_class_of_their_own_tell_nothing_of_each_other():
    assert audit_labels(recording(np.arange(ROWS), gradients(labels_of(0.3))), "telco", 100) == []


@given(st.lists(st.sampled_from(["normal", "huge", "constant", "tiny"]), min_size=4, max_size=4))
@settings(max_examples=10, deadline=None)
def test_whatever_numbers_a_recording_has_an_audit_comes_to_its_end(kinds):
    rng, rows = np.random.default_rng(13), np.arange(9)

    def values(kind):
        drawn = rng.normal(size=(9, 2)).astype(np.float32)
        drawn[0] = 5 if kind != "huge" else 1e15
        return {"constant": np.ones_like(drawn), "tiny": drawn * 1e-40}.get(kind, drawn)

    def stream(kind):
        return Stream.of([(0, rows, values(kind))])

    telco = {("sent", "bank", "embedding"): stream(kinds[0])}
    bank = {("sent", "telco", "gradient"): stream(kinds[1]),
            ("received", "telco", "embedding"): stream(kinds[2])}  # fmt: skip
    found = audit({
        "telco": Recording("telco", telco, None, Own(rows, values(kinds[3]))),
        "bank": Recording("bank", bank, Own(rows, rows % 2)),
    }, known=3)  # fmt: skip
    assert len(found.findings) == 7
