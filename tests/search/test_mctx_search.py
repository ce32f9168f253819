"""`search` against `mctx.search`: the same trees, from mctx's own policies and golden files."""

import functools
import importlib
import json
import pathlib
from importlib import resources

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from mctx._src import search as mctx_module

from azchess.search.mctx_search import search

INTEGERS = ("children_index", "children_visits", "node_visits", "parents", "action_from_parent")
slow = functools.partial(pytest.param, marks=pytest.mark.slow)
GOLDEN = (
    "muzero_tree",
    slow("muzero_qtransform_tree"),
    slow("gumbel_muzero_tree"),
    "gumbel_muzero_reward_tree",
)


@pytest.fixture(autouse=True)
def _plain_mctx(monkeypatch):
    """mctx's policies look their search up in this module; each test may put ours there."""
    monkeypatch.setattr(mctx_module, "search", mctx.search)


@pytest.fixture
def our_loop(monkeypatch):
    monkeypatch.setattr(mctx_module, "search", search)


@pytest.fixture
def tests_of_mctx():
    """A function that imports a test module of mctx, which needs older jax's random numbers.

    The modules switch them on when they are imported; they are switched off again afterwards.
    """
    before = jax.config.jax_threefry_partitionable
    jax.config.update("jax_threefry_partitionable", False)
    yield lambda name: importlib.import_module(f"mctx._src.tests.{name}")
    jax.config.update("jax_threefry_partitionable", before)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_trees_of_mctx_are_reproduced(name, our_loop, tests_of_mctx):
    path = resources.files("mctx._src.tests") / "test_data" / f"{name}.json"
    golden = json.loads(pathlib.Path(str(path)).read_text())
    tree = tests_of_mctx("tree_test").TreeTest()._reproduce_tree(golden)
    _assert_close(golden["tree"], tree)


def _assert_close(golden, tree):
    assert set(golden) == set(tree)
    for key, value in golden.items():
        if key == "child_stats":
            for child, ours in zip(value, tree[key], strict=True):
                _assert_close(child, ours)
        else:
            assert tree[key] == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize(
    "name",
    [
        slow("test_muzero_policy"),
        "test_gumbel_muzero_policy",
        "test_gumbel_muzero_policy_without_invalid_actions",
        slow("test_stochastic_muzero_policy"),
    ],
)
def test_policy_tests_of_mctx_pass(name, our_loop, tests_of_mctx):
    getattr(tests_of_mctx("policies_test").PoliciesTest(), name)()


def model(batch, actions, discount, noisy):
    """A random model with rewards; `noisy` ones draw anew when a node is evaluated again."""

    def heads(key):
        logits, value, reward, shrink = jax.random.split(key, 4)
        return mctx.RecurrentFnOutput(
            prior_logits=jax.random.normal(logits, (actions,)),
            value=jax.random.uniform(value, (), minval=-1.0),
            reward=jax.random.uniform(reward, (), minval=-1.0),
            discount=discount * jax.random.uniform(shrink, (), minval=0.5),
        )

    def recurrent(params, key, action, embedding):
        code = jax.vmap(jax.random.fold_in)(embedding["code"], action)
        seen = code
        if noisy:
            seen = jax.vmap(jax.random.fold_in)(code, jax.random.bits(key, (batch,)))
        return jax.vmap(heads)(seen), {"code": code, "ply": embedding["ply"] + 1}

    code = jax.random.split(jax.random.PRNGKey(batch), batch)
    first = jax.vmap(heads)(code)
    embedding = {"code": code, "ply": jnp.zeros(batch, jnp.int32)}
    root = mctx.RootFnOutput(
        prior_logits=first.prior_logits, value=first.value, embedding=embedding
    )
    return root, recurrent


def tree_of(our_search, policy, batch, actions, simulations, max_depth, discount, monkeypatch):
    root, recurrent = model(batch, actions, discount, noisy=max_depth is not None)
    mask = jax.random.bernoulli(jax.random.key(1), 0.3, (batch, actions)).at[:, 0].set(False)
    monkeypatch.setattr(mctx_module, "search", our_search)

    @jax.jit
    def run(key, mask):
        return policy((), key, root, recurrent, simulations, mask, max_depth)

    return run(jax.random.key(2), mask if actions > 2 else None)


@pytest.mark.parametrize(
    ("policy", "batch", "actions", "simulations", "max_depth", "discount"),
    [
        slow(mctx.muzero_policy, 1, 5, 30, None, 0.9),
        (mctx.muzero_policy, 4, 3, 40, 3, -1.0),
        slow(mctx.muzero_policy, 3, 2, 12, 1, 1.0),
        slow(mctx.gumbel_muzero_policy, 5, 7, 25, None, -1.0),
        slow(mctx.gumbel_muzero_policy, 2, 4, 33, 2, 0.9),
    ],
)
def test_trees_equal_those_of_mctx(
    policy, batch, actions, simulations, max_depth, discount, monkeypatch
):
    settings = (policy, batch, actions, simulations, max_depth, discount, monkeypatch)
    ours, theirs = tree_of(search, *settings), tree_of(mctx.search, *settings)
    np.testing.assert_array_equal(ours.action, theirs.action)
    np.testing.assert_allclose(ours.action_weights, theirs.action_weights, atol=1e-6)
    ours, theirs = ours.search_tree, theirs.search_tree
    for name in INTEGERS:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-6), ours, theirs)
    assert ours.node_visits.max() > 1


def test_a_level_of_the_search_copies_no_tree():
    """The loops write into one copy of the tree: scratch memory stays the same for more nodes."""
    root, recurrent = model(4, 50, -1.0, noisy=False)

    def scratch(simulations):
        @jax.jit
        def run(key):
            return search(
                (),
                key,
                root=root,
                recurrent_fn=recurrent,
                root_action_selection_fn=functools.partial(mctx.muzero_action_selection, depth=0),
                interior_action_selection_fn=mctx.muzero_action_selection,
                num_simulations=simulations,
            )

        memory = run.lower(jax.random.key(0)).compile().memory_analysis()
        return memory.temp_size_in_bytes, memory.output_size_in_bytes

    (few, _), (many, tree) = scratch(8), scratch(64)
    assert many - few < 0.02 * tree
