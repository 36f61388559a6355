"""Protections one by one: what each does to labels, gradients, embeddings; and the accountant."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import methods
from colonnade.errors import JobError
from colonnade.protect.accountant import delta_of, epsilon_of, mu, spent, spent_for
from colonnade.protect.base import Protect, parse
from colonnade.protect.embedding import dcor, gauss
from colonnade.protect.gradient import marvell, max_norm
from colonnade.protect.labels import flip
from colonnade.protect.secret import Derived, Secret, row_draws

KEY = bytes(range(32))


def random(*use):
    return Secret(KEY).stream(*use)


def test_a_table_of_protections_is_read_and_written_back():
    table = {
        "labels": "flip:2",
        "gradient": "marvell:0.25",
        "embedding": "dcor:0.1+gauss:1:0.5",
    }
    made = parse(table)
    assert made.texts == table and parse(made.texts) == made
    method = methods.build({"name": "fedbcd", "updates": 3, "protect": table})
    assert method.composition()["protect"] == (
        "protect(labels=flip:2, gradient=marvell:0.25, embedding=dcor:0.1+gauss:1:0.5)"
    )
    assert methods.build({"name": "fedsgd"}).protect == Protect()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"label": "flip:2"}, "there is no method.protect.label: did you mean 'labels'?"),
        ({"labels": 2}, "write it as text"),
        ({"labels": "flop:2"}, "there is no protection 'flop' of labels: did you mean 'flip'?"),
        ({"labels": "flip"}, "lacks an argument: give epsilon"),
        ({"labels": "flip:0"}, "give an ε over 0"),
        ({"labels": "flip:nan"}, "give an ε over 0"),
        ({"labels": "flip:2+flip:3"}, "one thing twice"),
        ({"gradient": "max_norm+marvell:0.2"}, "only embeddings take several"),
        ({"gradient": "marvell:0.5"}, "under 0.5, which is guessing"),
        ({"gradient": "marvell:inf"}, "under 0.5"),
        ({"embedding": "gauss:1"}, "lacks an argument: give sigma"),
        ({"embedding": "gauss:0:1"}, "over 0"),
        ({"embedding": "gauss:1:nan"}, "over 0"),
        ({"embedding": "dcor:-1"}, "over 0"),
    ],
)
def test_what_is_no_protection_is_refused_in_a_sentence(table, said):
    with pytest.raises(JobError) as refused:
        methods.build({"name": "fedsgd", "protect": table})
    assert said in str(refused.value)


def test_protections_that_make_no_sense_with_a_method_are_refused():
    with pytest.raises(JobError, match="say what is to be protected"):
        methods.build({"name": "fedsgd", "protect": "flip:2"})
    with pytest.raises(JobError, match="with snapshots no gradients cross"):
        methods.build({"name": "cvfl", "protect": {"gradient": "max_norm"}})


@given(st.floats(0.1, 8), st.integers(2, 12))
@settings(max_examples=25, deadline=None)
def test_randomised_response_keeps_as_many_labels_as_it_says(epsilon, classes):
    rows = 40_000
    labels = np.arange(rows) % classes
    draws = row_draws(KEY, "any", map(str, range(rows)), map(str, labels))
    drawn = flip(epsilon).column(labels, classes, draws)
    kept = flip(epsilon).kept(classes)
    assert abs((drawn == labels).mean() - kept) < 5 * math.sqrt(0.25 / rows)
    assert math.isclose(kept / ((1 - kept) / (classes - 1)), math.exp(epsilon), rel_tol=1e-9)
    others = np.bincount((drawn - labels)[drawn != labels] % classes, minlength=classes)[1:]
    expected = rows * (1 - kept) / (classes - 1)
    assert np.abs(others - expected).max() < 6 * math.sqrt(max(expected, 1))
    assert drawn.dtype == labels.dtype and drawn.min() >= 0 and drawn.max() < classes


def test_a_row_with_the_same_label_is_drawn_the_same_again_and_another_one_is_not():
    rows, labels = [f"id {n}" for n in range(500)], ["no", "yes"] * 250
    one = row_draws(KEY, "flip:2", rows, labels)
    order = np.random.default_rng(0).permutation(500)
    again = row_draws(KEY, "flip:2", [rows[n] for n in order], [labels[n] for n in order])
    assert (one[order] == again).all()
    for other in (
        row_draws(KEY[::-1], "flip:2", rows, labels),
        row_draws(KEY, "flip:3", rows, labels),
        row_draws(KEY, "flip:2", rows, labels[::-1]),
    ):
        assert not (one == other).any()


def test_streams_differ_by_use_and_look_normal():
    one, other = random("noise", 1), random("noise", 2)
    drawn = one.normal(200_000)
    assert abs(drawn.mean()) < 0.02 and abs(drawn.std() - 1) < 0.02
    assert abs((np.abs(drawn) < 1.96).mean() - 0.95) < 0.005
    assert abs(np.corrcoef(drawn, other.normal(200_000))[0, 1]) < 0.02
    uniform = one.uniform(3, 5)
    assert uniform.shape == (3, 5) and (uniform > 0).all() and (uniform < 1).all()
    assert not (one.words(8) == one.words(8)).any()
    assert Derived(1)(32) != Derived(2)(32) and (first := Derived(1))(32) != first(32)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_no_row_leaves_longer_than_the_clip_and_what_leaves_has_the_noise_it_says(seed):
    draw = np.random.default_rng(seed)
    embedding = torch.from_numpy(draw.standard_normal((2_000, 4)) * draw.uniform(0, 10, (2_000, 1)))
    protection = gauss(1.5, 0.25)
    shaped = protection.shape(embedding)
    assert shaped.norm(dim=1).max() <= 1.5 * (1 + 1e-9)
    short = embedding.norm(dim=1) <= 1.5
    assert torch.equal(shaped[short], embedding[short])
    noise = protection.leaving(embedding, random("noise", seed)) - shaped
    assert abs(noise.std().item() - 0.25) < 0.02 and abs(noise.mean().item()) < 0.02
    assert protection.penalty(embedding, embedding) is None


def test_distance_correlation_is_one_of_a_rotation_and_small_of_noise():
    draw = torch.Generator().manual_seed(0)
    columns = torch.randn(400, 6, generator=draw, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(6, 6, generator=draw, dtype=torch.float64)).Q
    noise = torch.randn(400, 6, generator=draw, dtype=torch.float64)
    weighed = dcor(2.0)
    assert abs(weighed.penalty(3 * columns @ turn, columns).item() - 2) < 1e-6
    assert weighed.penalty(noise, columns).item() < 0.4
    assert weighed.shape(columns) is columns and weighed.leaving(columns, random()) is columns
    leaf = columns.clone().requires_grad_()
    weighed.penalty(leaf, columns).backward()
    assert torch.isfinite(leaf.grad).all()
    # Of rows that are all alike, and of one row.
    for alike in (torch.ones(5, 3), torch.ones(1, 3)):
        leaf = alike.requires_grad_()
        weighed.penalty(leaf, torch.arange(len(alike)).view(-1, 1).float()).backward()
        assert torch.isfinite(leaf.grad).all()


def gradients(rows, positives, draw):
    """Gradients of two classes, as those of a logistic loss: long and short, opposite."""
    labels = (torch.arange(rows) < positives).to(torch.float64).view(-1, 1)
    direction = torch.tensor([[1.0, -2.0, 0.5, 1.0]], dtype=torch.float64)
    scale = torch.where(labels > 0, -0.8, 0.2)
    return scale * direction + 0.05 * torch.from_numpy(draw.standard_normal((rows, 4))), labels


def test_max_norm_makes_rows_as_long_as_the_longest_on_average():
    gradient, labels = gradients(4_000, 800, np.random.default_rng(0))
    left = max_norm().leaving(gradient, labels, random())
    longest = (gradient**2).sum(dim=1).max().item()
    for own in (labels.view(-1) > 0, labels.view(-1) == 0):
        assert abs((left[own] ** 2).sum(dim=1).mean().item() / longest - 1) < 0.2
    assert torch.equal(
        max_norm().leaving(torch.zeros(3, 2), labels[:3], random()), torch.zeros(3, 2)
    )


@pytest.mark.parametrize("error", [0.1, 0.3, 0.45])
def test_no_threshold_tells_the_classes_of_a_batch_better_than_marvell_allows(error):
    gradient, labels = gradients(20_000, 4_000, np.random.default_rng(1))
    positive = labels.view(-1).numpy() > 0
    left = marvell(error).leaving(gradient, labels, random("m")).numpy()
    gap = (gradient[positive].mean(dim=0) - gradient[~positive].mean(dim=0)).numpy()
    for score in (left @ gap, -np.linalg.norm(left, axis=1), np.linalg.norm(left, axis=1)):
        at = np.quantile(score, np.linspace(0.001, 0.999, 400))
        missed = [(score[positive] < t).mean() for t in at]
        falsely = [(score[~positive] >= t).mean() for t in at]
        assert (np.add(missed, falsely) / 2).min() > error - 0.02
    plain = gradient.numpy() @ gap
    assert plain[positive].min() > plain[~positive].max()


def test_marvell_adds_less_noise_than_equal_variances_and_more_for_more_error():
    gradient, labels = gradients(2_000, 400, np.random.default_rng(2))
    powers = [
        (marvell(error).leaving(gradient, labels, random("p")) - gradient).pow(2).mean().item()
        for error in (0.1, 0.2, 0.3, 0.4)
    ]
    assert powers == sorted(powers) and powers[0] > 0
    one_class = marvell(0.3).leaving(gradient[:400], labels[:400], random("p"))
    assert one_class.shape == (400, 4) and torch.isfinite(one_class).all()


@given(st.floats(0.05, 20), st.floats(0.0, 200))
@settings(max_examples=200, deadline=None)
def test_the_accountant_s_curve_goes_from_one_end_to_the_other(distance, epsilon):
    delta = delta_of(epsilon, distance)
    assert -1e-12 <= delta <= 1
    assert delta_of(epsilon + 1, distance) <= delta + 1e-12
    found = epsilon_of(distance, 1e-5)
    assert delta_of(found, distance) <= 1e-5 * (1 + 1e-6)
    assert found == 0 or delta_of(found * 0.999, distance) > 1e-5


@pytest.mark.parametrize("distance", [1e3, 9999.0, 10001.0, 1e8, 1e150, math.inf])
def test_next_to_no_noise_costs_much_and_is_no_error(distance):
    found = epsilon_of(distance)
    assert found >= distance * distance / 2
    if distance < 1e9:
        # ε = μ²/2 + μ Φ⁻¹(1 − δ), but for the second term of the curve.
        assert found == pytest.approx(distance**2 / 2 + 4.2649 * distance, rel=1e-3)


def test_what_releases_with_different_noise_have_spent_adds_up():
    one, other = gauss(1, 4), gauss(2, 5)
    assert spent(one, 3) + spent(other, 2) == pytest.approx(mu(one, 3) ** 2 + mu(other, 2) ** 2)
    assert spent(gauss(1e200, 1e-200), 0) == 0 and spent(gauss(1e200, 1e-200), 1) == math.inf
    for epsilon in (0.01, 1.0, 80.0):
        most = spent_for(epsilon)
        assert epsilon_of(math.sqrt(most)) <= epsilon < epsilon_of(math.sqrt(1.001 * most))


def test_the_accountant_is_that_of_dp_accounting():
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    for noise, releases in ((gauss(1, 4), 1), (gauss(1, 16), 20)):
        loss = accounting.from_gaussian_mechanism(
            noise.sigma,
            sensitivity=2 * noise.clip * math.sqrt(releases),
            value_discretization_interval=5e-5,
        )
        theirs = loss.get_epsilon_for_delta(1e-5)
        assert abs(epsilon_of(mu(noise, releases)) - theirs) < 1e-4
