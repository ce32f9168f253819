"""mctx's own policies on the games without end of the tests."""

import functools

import jax
import jax.numpy as jnp
import mctx

from azchess.search.node import evaluate_node, split_keys
from search.reference import hashed_evaluator


def model(game, discount):
    """What mctx asks of a model: `root(positions)` and `recurrent(params, key, action, state)`.

    Returns also the illegal moves of positions.
    """
    evaluate = hashed_evaluator(game)

    def output(positions):
        keys = jax.random.split(jax.random.key(0), positions.code.shape[0])
        node = evaluate_node(game, evaluate, 1.0, keys, positions, discount=discount)
        found = evaluate(1.0, keys, positions, node.moves)
        illegal = ~node.moves.legal
        logits = jnp.where(illegal, jnp.finfo(jnp.float32).min, found.logits)
        return logits, node.value, illegal, (positions, node.moves.labels)

    def root(positions):
        logits, value, illegal, embedding = output(positions)
        return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding), illegal

    def recurrent(params, key, action, embedding):
        positions, labels = embedding
        label = jnp.take_along_axis(labels, action[:, None], axis=1)[:, 0]
        positions = jax.vmap(game.step)(positions, label.astype(jnp.int32))
        logits, value, _, embedding = output(positions)
        return mctx.RecurrentFnOutput(
            reward=jnp.zeros_like(value),
            discount=jnp.full_like(value, -discount),
            prior_logits=logits,
            value=value,
        ), embedding

    return root, recurrent


def gumbel_policy(game, search, knobs, monkeypatch):
    """`mctx.gumbel_muzero_policy` with the noise that our search draws, compiled."""
    root_of, recurrent = model(game, knobs.discount)

    def run(keys, positions):
        noise_keys = split_keys(keys, 4)[2]
        noise = jax.vmap(lambda key: jax.random.gumbel(key, (game.num_slots,)))(noise_keys)
        root, illegal = root_of(positions)
        # The paper's Q in [0, 1] is half of mctx's Q in [-1, 1]; rescaled values are alike.
        scale = knobs.c_scale if search.rescale_values else knobs.c_scale / 2
        with monkeypatch.context() as patch:
            patch.setattr(jax.random, "gumbel", lambda key, shape, dtype: noise)
            return mctx.gumbel_muzero_policy(
                (),
                jax.random.key(0),
                root,
                recurrent,
                search.simulations,
                invalid_actions=illegal,
                max_depth=search.max_depth,
                qtransform=functools.partial(
                    mctx.qtransform_completed_by_mix_value,
                    value_scale=scale,
                    maxvisit_init=knobs.c_visit,
                    rescale_values=search.rescale_values,
                    use_mixed_value=search.mixed_value,
                ),
                max_num_considered_actions=search.considered,
                gumbel_scale=knobs.gumbel_scale,
            )

    return jax.jit(run)


def muzero_policy(game, search, knobs, monkeypatch):
    """`mctx.muzero_policy` without noise, at the root and in ties, compiled."""
    root_of, recurrent = model(game, knobs.discount)

    def run(keys, positions):
        del keys
        root, illegal = root_of(positions)
        with monkeypatch.context() as patch:
            patch.setattr(jax.random, "uniform", lambda key, shape: jnp.zeros(shape))
            return mctx.muzero_policy(
                (),
                jax.random.key(0),
                root,
                recurrent,
                search.simulations,
                invalid_actions=illegal,
                max_depth=search.max_depth,
                dirichlet_fraction=0.0,
                pb_c_init=knobs.c_init,
                pb_c_base=knobs.c_base,
            )

    return jax.jit(run)
