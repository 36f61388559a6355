"""What a job names is looked up before any data is read."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest
import torch
from torch import nn

import colonnade as cn
from colonnade.cli import main
from colonnade.plugins import extension
from tests.small import small

WRONG = {
    "method.name=fedsdg": "there is no method 'fedsdg': did you mean 'fedsgd'",
    "method.most=3": "the method fedsgd has no option 'most'",
    "parties.clinic.step=nothing": "there is no step policy 'nothing'",
    "parties.lab.model.name=mpl": "parties.lab.model: there is no model 'mpl': did you mean 'mlp'",
    "parties.lab.model.widht=3": "parties.lab.model: mlp has no option 'widht'",
    "parties.lab.model.hidden=3": "parties.lab.model.hidden is 3: it must be a list",
    "parties.lab.optimizer.name=adma": "parties.lab.optimizer: torch has no optimizer 'adma'",
    "parties.lab.optimizer.momentun=0.5": "sgd has no option 'momentun'",
    "parties.lab.optimizer.lr=1e308": "parties.lab.optimizer.lr is 1e+308: give a smaller number",
    "parties.lab.schedule={name='Step'}": "parties.lab.schedule: torch has no schedule 'Step'",
    "parties.lab.schedule={name='StepLR', every='day'}": "parties.lab.schedule.every is 'day'",
    "top.optimizer={name='adma'}": "top.optimizer: torch has no optimizer 'adma'",
    "train.extra_metrics=['acuracy']": "there is no metric 'acuracy': did you mean 'accuracy'",
}
VALUES = {
    "parties.lab.optimizer.lr=-1": "parties.lab.optimizer: Invalid learning rate: -1",
    "parties.lab.schedule={name='StepLR'}": "parties.lab.schedule: ",
}


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    """Whoever reads data fails."""

    def read(*_: object) -> None:
        raise AssertionError("data was read")

    monkeypatch.setattr(import_module("colonnade.data.party"), "load", read)


@pytest.fixture
def module():
    """A module of one's own that is there already."""
    sys.modules["own_module"] = made = type(sys)("own_module")
    yield made
    del sys.modules["own_module"]


@pytest.mark.parametrize("setting", [*WRONG, *VALUES])
def test_a_wrong_name_or_option_is_found_before_data_is_read(setting, capsys):
    me = "clinic" if setting.startswith(("top.", "parties.clinic")) else "lab"
    words = ["digits", "--set", setting]
    for command in (
        ["simulate", *words],
        ["join", *words, "--me", me, "--dry-run"],
        ["sweep", *words, "--grid", "train.batch_size=32,64"],
        *([["launch", *words]] if setting in WRONG else []),
    ):
        assert main(command) == 2
        assert (WRONG | VALUES)[setting] in capsys.readouterr().err, command


def test_a_comparison_finds_a_wrong_method_before_data_is_read():
    with pytest.raises(cn.JobError, match="no method 'fedsdg'"):
        cn.compare(cn.load("digits"), ["fedsgd", "fedsdg"], seeds=[0])
    with pytest.raises(cn.JobError, match="there is no model 'mpl'"):
        cn.compare(cn.load("digits", ["parties.lab.model.name=mpl"]), ["fedsgd"], seeds=[0])


def test_a_method_s_options_may_follow_its_name():
    job = cn.load("digits", method="sync_min:timeout=100ms")
    assert job.method == {"name": "sync_min", "timeout": "100ms"}
    assert cn.load("digits", ["method.mu=0.1"], method={"name": "fedbcd"}).method["mu"] == 0.1
    with pytest.raises(cn.JobError, match=r"options are keys .* \{ name = \"fedbcd\", … \}"):
        cn.simulate(cn.with_sets(cn.load("digits"), "method.name=fedbcd:updates=5"))


def test_a_method_of_one_s_own_says_which_option_it_lacks(module):
    @extension("method")
    def twice(updates: int) -> cn.Method:
        return cn.fedbcd(updates)

    module.twice = twice
    with pytest.raises(cn.JobError, match="lacks an option: missing a required argument: 'upd"):
        cn.simulate(cn.load("digits", method="own_module:twice"))


def test_a_model_of_one_s_own_that_cannot_be_called_is_refused(module):
    @extension("model")
    def tower(row_shape, depth):
        return nn.Identity()

    @extension("top")
    def head():
        return nn.Identity()

    module.tower, module.head = tower, head
    with pytest.raises(cn.JobError, match="missing a required argument: 'depth'"):
        cn.simulate(cn.load("digits", ["parties.lab.model={name='own_module:tower'}"]))
    with pytest.raises(cn.JobError, match="called with the list of embedding widths"):
        cn.simulate(
            cn.load("digits", ["top.kind=module", "top.hidden=[]", "top.module=own_module:head"])
        )


class Sum(nn.Module):
    """The sum of the embeddings, as a column or not."""

    def __init__(self, columns: bool) -> None:
        super().__init__()
        self.columns = columns

    def forward(self, embeddings: list[torch.Tensor]) -> torch.Tensor:
        """Add up all of them."""
        return torch.cat(embeddings, dim=1).sum(dim=1, keepdim=self.columns)


@pytest.mark.parametrize(
    ("top", "fault"),
    [
        (nn.Linear(4, 1), "the top model cannot read the list of the parties' embeddings"),
        (Sum(columns=False), r"must return \[rows, 1\]; of 2 rows it gave \(2,\)"),
        (nn.Identity(), r"of 2 rows it gave list"),
    ],
)
def test_a_top_model_of_one_s_own_that_does_not_fit_is_refused(top, fault):
    case = small(2, rounds=2)
    modules = {name: module for name, module in case.modules.items() if name != "top"}
    with pytest.raises(cn.JobError, match=fault):
        cn.simulate(case.job, case.data, modules | {"top": top})


def test_a_bottom_model_of_one_s_own_that_takes_something_else_is_refused():
    case = small(2, rounds=2)
    name = case.job.passives[0]
    with pytest.raises(cn.JobError, match=f"the model of {name} cannot read rows"):
        cn.simulate(case.job, case.data, case.modules | {name: nn.Bilinear(2, 2, 2)})
