"""Frames of a bank and a telco that have some customers in common, as people keep them."""

from __future__ import annotations

import numpy as np
import pandas as pd

ROWS = 600


def bank_and_telco() -> tuple[pd.DataFrame, pd.DataFrame, pd.Series]:
    """The bank's frame, the telco's with customers missing and others added, and the bank's
    labels, which depend on columns of both."""
    rng = np.random.default_rng(0)
    ids = pd.Index([f"c{number:05d}" for number in rng.permutation(ROWS)])
    income, calls = rng.lognormal(10, 0.5, ROWS), rng.poisson(5, ROWS).astype(float)
    plan = rng.choice(["gold", "silver", "basic"], ROWS)
    z = np.log(income) - 10 + 0.5 * (calls - 5) + 1.5 * (plan == "gold") - 0.5
    good = pd.Series(np.where(z + rng.normal(0, 0.4, ROWS) > 0, "yes", "no"), index=ids)
    days = pd.to_timedelta(rng.integers(0, 700, ROWS), unit="D")
    bank = pd.DataFrame({"income": income, "since": pd.Timestamp("2023-01-01") + days}, index=ids)
    calls[rng.random(ROWS) < 0.1] = np.nan
    telco = pd.DataFrame({"calls": calls, "plan": plan}, index=ids).sample(frac=0.8, random_state=1)
    telco.iloc[:20, 1] = None
    others = telco.iloc[:15].set_axis([f"t{number}" for number in range(15)])
    return bank, pd.concat([telco, others]), good
