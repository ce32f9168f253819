"""One iteration of AlphaZero as one function: play, remember, learn."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, Key, PRNGKeyArray

from azchess.games.game import Game
from azchess.learning.learner import (
    LearnConfig,
    Learner,
    UpdateMetrics,
    new_learner,
    update,
)
from azchess.learning.losses import LearnKnobs, make_batch
from azchess.learning.replay import Replay, add, empty_replay, sample, sampleable
from azchess.learning.selfplay import (
    Games,
    Ply,
    Search,
    SelfPlayConfig,
    Starts,
    new_games,
    play,
    searches_on,
)
from azchess.networks.evaluator import network_evaluator
from azchess.pytree import pytree
from azchess.search.knobs import SearchKnobs


@dataclasses.dataclass(frozen=True)
class Setup:
    """Everything about training that makes shapes or chooses code; static under jit.

    With a `mesh` of one axis named "games", of type Auto, self-play runs under `shard_map` on its
    devices, a part of the lanes each, and the learner's batches are spread over them.
    """

    game: Game
    search: Search
    selfplay: SelfPlayConfig = SelfPlayConfig()
    learn: LearnConfig = LearnConfig()
    capacity: int = 512
    mesh: jax.sharding.Mesh | None = None

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.capacity % self.selfplay.plies:
            raise ValueError(
                f"capacity = {self.capacity}: must be a multiple of "
                f"selfplay.plies = {self.selfplay.plies}"
            )
        if self.selfplay.reuse:
            searches_on(self.search)
        devices = 1 if self.mesh is None else self.mesh.size
        sizes = {"selfplay.games": self.selfplay.games, "learn.batch": self.learn.batch}
        for name, size in sizes.items():
            if size % devices:
                raise ValueError(f"{name} = {size}: must be a multiple of the {devices} devices")


@pytree
class Knobs:
    """All numbers of a run that may change without compiling anew."""

    search: SearchKnobs = SearchKnobs()
    learn: LearnKnobs = LearnKnobs()


@pytree
class Run:
    """The whole state of training, and all that a checkpoint holds."""

    learner: Learner
    games: Games
    replay: Replay
    key: PRNGKeyArray
    iteration: Int32[Array, ""]


def new_run(setup: Setup, network: Any, starts: Starts, key: PRNGKeyArray) -> Run:
    """A run at iteration 0: games at their starts, an empty replay, the given network."""
    games_key, run_key = jax.random.split(key)
    games = new_games(setup.game, starts, games_key, setup.selfplay.games)
    plies = jax.eval_shape(functools.partial(self_play, setup), network, games, Knobs(), starts)[1]
    run = Run(
        learner=new_learner(setup.learn, network),
        games=games,
        replay=empty_replay(plies, setup.capacity),
        key=run_key,
        iteration=jnp.zeros((), jnp.int32),
    )
    # A run is donated: it must own its arrays, and hold none of them twice.
    return spread(setup, jax.tree.map(jnp.copy, run))


def spread(setup: Setup, run: Run) -> Run:
    """The run on the devices of the mesh: of games and replay each has its lanes, of the rest all.

    Under jit a constraint, so that an iteration ends with the shardings that it began with.
    """
    if setup.mesh is None:
        return run
    lanes = jax.sharding.NamedSharding(setup.mesh, jax.sharding.PartitionSpec("games"))
    whole = jax.sharding.NamedSharding(setup.mesh, jax.sharding.PartitionSpec())
    places = jax.tree.map(lambda _: whole, run)
    # Arrays without elements, which XLA leaves whole, and the replay's counters are on all devices.
    per_lane = jax.tree.map(
        lambda x: lanes if x.ndim and x.size else whole, (run.games, run.replay)
    )
    places = dataclasses.replace(places, games=per_lane[0], replay=per_lane[1])
    return jax.device_put(run, places)


def self_play(
    setup: Setup, network: Any, games: Games, knobs: Knobs, starts: Starts
) -> tuple[Games, Ply]:
    """T plies of B games `[T, B]`, on the devices of the mesh if there is one."""

    def run(network: Any, games: Games, knobs: SearchKnobs, starts: Starts) -> tuple[Games, Ply]:
        evaluate = network_evaluator(setup.game)
        return play(
            setup.game, evaluate, setup.search, setup.selfplay, network, games, knobs, starts
        )

    if setup.mesh is None:
        return run(network, games, knobs.search, starts)
    lanes = jax.sharding.PartitionSpec("games")
    whole = jax.sharding.PartitionSpec()
    # A knob of one value per game goes with its games.
    per_knob = jax.tree.map(lambda x: lanes if jnp.ndim(x) else whole, knobs.search)
    plies = jax.sharding.PartitionSpec(None, "games")
    # Fresh trees and replays are constants until they are first written, which the check for
    # values that vary between devices would refuse as loop carries.
    sharded = jax.shard_map(
        run,
        mesh=setup.mesh,
        in_specs=(whole, lanes, per_knob, whole),
        out_specs=(lanes, plies),
        check_vma=False,
    )
    return sharded(network, games, knobs.search, starts)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def iterate(
    setup: Setup, run: Run, knobs: Knobs, starts: Starts
) -> tuple[Run, dict[str, Float[Array, ""]]]:
    """Plays T plies of B games, adds them to the replay and makes K updates.

    Returns the run with the same shapes, dtypes and weak types, and metrics as float32 scalars.
    The run that is passed in is donated and must not be read again.
    """
    sample_key, symmetry_key = jax.random.split(jax.random.fold_in(run.key, run.iteration))
    games, plies = self_play(setup, run.learner.player, run.games, knobs, starts)
    replay = add(run.replay, plies)
    learner, updates = learn(setup, run.learner, replay, knobs, sample_key, symmetry_key)
    metrics = selfplay_metrics(plies) | update_metrics(updates)
    # Weights that the last update has ruined would show in no loss before the next iteration.
    metrics["learn/weight_norm"] = optax.tree.norm(learner.network)
    metrics["replay/fill"] = replay.filled / replay.capacity
    metrics["replay/sampleable"] = sampleable(replay, setup.game.num_boards).mean()
    overflow = (plies.moves > setup.game.num_slots).sum()
    metrics["selfplay/slot_overflows"] = overflow.astype(jnp.float32)
    new = Run(learner=learner, games=games, replay=replay, key=run.key, iteration=run.iteration + 1)
    return spread(setup, new), metrics


def learn(
    setup: Setup,
    learner: Learner,
    replay: Replay,
    knobs: Knobs,
    sample_key: PRNGKeyArray,
    symmetry_key: PRNGKeyArray,
) -> tuple[Learner, UpdateMetrics]:
    """K updates on samples of the replay, and what each said of itself `[K]`."""
    config = setup.learn
    boards = setup.game.num_boards
    filled = (replay.filled >= config.fill * replay.capacity).astype(jnp.float32)

    def one(learner: Learner, keys: Key[Array, "2"]) -> tuple[Learner, UpdateMetrics]:
        samples = sample(replay, keys[0], config.batch, boards)
        samples = dataclasses.replace(samples, weight=samples.weight * filled)
        batch = make_batch(setup.game, samples, keys[1] if config.augment else None)
        if setup.mesh is not None:
            part = jax.sharding.NamedSharding(setup.mesh, jax.sharding.PartitionSpec("games"))
            batch = jax.lax.with_sharding_constraint(batch, part)
        return update(config, learner, batch, knobs.learn)

    keys = [jax.random.split(key, config.updates) for key in (sample_key, symmetry_key)]
    return jax.lax.scan(one, learner, jnp.stack(keys, axis=1))


def selfplay_metrics(plies: Ply) -> dict[str, Float[Array, ""]]:
    """Sums and means over the plies `[T, B]` of one iteration."""
    ended = plies.ended.astype(jnp.float32)
    finished = ended.sum()
    games = jnp.maximum(finished, 1.0)
    policy = plies.policy.astype(jnp.float32)
    taught = (policy.sum(axis=-1) > 0).astype(jnp.float32)
    entropy = -(policy * jnp.log(jnp.where(policy > 0, policy, 1.0))).sum(axis=-1)
    entropy = entropy.sum() / jnp.maximum(taught.sum(), 1.0)
    decision = plies.decision
    differs = plies.played != decision.network_prior.argmax(axis=-1)
    result = (plies.result * ended[..., None]).sum(axis=(0, 1))
    return {
        "selfplay/games": finished,
        "selfplay/first_wins": result[0],
        "selfplay/draws": result[1],
        "selfplay/second_wins": result[2],
        "selfplay/cut_games": (plies.cut & plies.ended).sum().astype(jnp.float32),
        "selfplay/game_length": (ended * (plies.ply + 1)).sum() / games,
        "selfplay/full_searches": taught.mean(),
        "selfplay/visits": decision.visits.sum(axis=-1).astype(jnp.float32).mean(),
        "selfplay/avg_visit_entropy": entropy,
        "selfplay/effective_moves": jnp.exp(entropy),
        "selfplay/differs_from_prior": differs.astype(jnp.float32).mean(),
        "selfplay/search_value": decision.value.mean(),
        "selfplay/search_depth": decision.depth.astype(jnp.float32).mean(),
        "selfplay/lockstep_depth": decision.lockstep.mean(),
    }


def update_metrics(updates: UpdateMetrics) -> dict[str, Float[Array, ""]]:
    """Means over the updates `[K]` of one iteration, and the last learning rate."""
    losses = updates.losses
    return {
        "learn/policy_loss": losses.policy.mean(),
        "learn/value_loss": losses.value.mean(),
        "learn/moves_left_loss": losses.moves_left.mean(),
        "learn/policy_accuracy": losses.accuracy.mean(),
        "learn/gradient_norm": updates.gradient_norm.mean(),
        "learn/learning_rate": updates.learning_rate[-1],
    }
