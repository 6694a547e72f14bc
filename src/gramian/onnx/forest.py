"""A forest as an ONNX operator, for rows that it was not grown on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gramian.estimators.auto.forest import FewLevels, Forest, LevelCodes

if TYPE_CHECKING:
    from gramian.onnx.graph import Graph

AT_MOST, AMONG = 0, 6
"""Kinds of nodes: is a column at most a number, or one of several codes."""
DOUBLE = 11
"""The ONNX type of a number."""


def predictions(g: Graph, forest: Forest, z: str) -> str:
    """Return the mean over folds of what their trees predict, in deviations: z (n, d) → (n, c)."""
    asked = g("Concat", *(_code(g, levels, z) for levels in forest.levels), z, axis=1)
    leaf, outputs = forest.columns < 0, forest.deviation.size
    tree = np.searchsorted(forest.roots, np.flatnonzero(leaf), side="right") - 1
    target = tree % outputs
    total = g(
        "TreeEnsemble",
        asked,
        **_nodes(g, forest, leaf),
        leaf_targetids=target.tolist(),
        leaf_weights=g.tensor(forest.thresholds[leaf] / (len(forest.constants) * forest.deviation[target])),
        n_targets=outputs,
        domain="ai.onnx.ml",
    )
    return g("Add", total, forest.constants.mean(axis=0) / forest.deviation)


def _code(g: Graph, levels: LevelCodes | FewLevels, z: str) -> str:
    """The code of the level whose mean is in a column, or which has a column of its own: z (n, d) → (n, 1)."""
    if isinstance(levels, FewLevels):
        columns = g("Gather", z, levels.place + np.arange(levels.width), axis=1)
        return g("Cast", g("ArgMax", columns, axis=1, keepdims=1), to=DOUBLE)
    mean = g("Gather", z, np.array([levels.place]), axis=1)
    below = g("ReduceSum", g("Cast", g("Less", levels.means[None], mean), to=DOUBLE), np.array([1]), keepdims=1)
    place = g("Cast", g("Min", below, np.array(levels.means.size - 1.0)), to=7)
    return g("Gather", levels.codes.astype(np.float64), place)


def _nodes(g: Graph, forest: Forest, leaf: Any) -> dict[str, Any]:
    """Nodes that ask, and where yes and no lead; a tree of one leaf asks in vain, as the operator wants a question."""
    alone = np.zeros_like(leaf)
    alone[forest.roots] = leaf[forest.roots]
    asks, own = ~leaf | alone, np.arange(leaf.size)
    yes, no = np.where(leaf[:, None], own[:, None], forest.children)[asks].T
    place, column, split = np.cumsum(asks) - 1, forest.columns[asks], forest.thresholds[asks]
    by_code = (column >= 0) & (column < len(forest.levels))
    codes = [np.flatnonzero(np.unpackbits(forest.sets[k])) for k in split[by_code].astype(np.intp)]
    found = {
        "nodes_featureids": np.maximum(column, 0).tolist(),
        "nodes_modes": g.tensor(np.where(by_code, AMONG, AT_MOST).astype(np.uint8)),
        "nodes_splits": g.tensor(np.where(by_code | leaf[asks], 0.0, split)),
        "tree_roots": place[forest.roots].tolist(),
    }
    for name, children in {"true": yes, "false": no}.items():
        at = np.where(leaf[children], np.cumsum(leaf)[children] - 1, place[children])
        found |= {f"nodes_{name}nodeids": at.tolist(), f"nodes_{name}leafs": leaf[children].astype(int).tolist()}
    if codes:  # in the order of the nodes, each list ended by nan; code -1 is no level's
        found["membership_values"] = g.tensor(
            np.concatenate([[*(each if each.size else [-1]), np.nan] for each in codes])
        )
    return found
