"""A party's view of its training as a tree, for a checkpoint."""

from __future__ import annotations

from collections import deque

from colonnade.learn.contents import Forward
from colonnade.packed import LongList
from colonnade.policies.view import EFFORT, Role, View
from colonnade.record.tree import Tree, moved

_SAVED = (
    *("now_ns", "round", "sent", "fresh", "local", "finished_ns", "update_ns", "top_ns"),
    *("forward_ns", "backward_ns", "aggregate_ns", "idle_ns", "spare"),
    *("agreed", "reported", "locals_since_fresh", "sent_since_fresh", "in_flight_max", "window"),
    *("path", "staleness"),
    *("arrived", "answered", "signals", "signalled"),
)
"""The fields of a view that are trees as they are."""


def view_state(view: View) -> Tree:
    """What a party knows of its training at a barrier, where nothing is in flight. What it did on
    the way is not part of it: only a simulation tells of that, and it is never interrupted."""
    assert not view.replies and (view.role is Role.ACTIVE or not view.in_flight), "in flight"
    for exchange in view.kept:
        forward = exchange.forward
        assert not isinstance(forward, Forward) or forward.stashed is None, "in flight"
    state = {field: getattr(view, field) for field in _SAVED}
    return moved(state, "cpu") | {
        "efforts": view.efforts.columns(),
        "kept": moved(list(view.kept), "cpu"),
    }


def restore_view(view: View, state: Tree, device: str = "cpu") -> None:
    """Make a view before the first round the one that was saved; tensors go to the device."""
    # A party that was saved before a field was known goes on with what it begins with.
    saved = {field: state[field] for field in _SAVED if field in state}
    for field, value in moved(saved, "cpu").items():
        setattr(view, field, value)
    view.efforts = LongList.of_columns(EFFORT, state["efforts"])
    view.kept = deque(moved(state["kept"], device))
