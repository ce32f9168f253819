"""The command line: each command is one call of the library."""

import argparse
import dataclasses
import os
import pathlib
import sys
from typing import Annotated, Any, Literal

import jax
import tyro
from rich.console import Console

from azchess.learning.learner import Optimiser
from azchess.search.knobs import Knob

REGISTRY = tyro.constructors.ConstructorRegistry()


@REGISTRY.primitive_rule
def _knob(info: Any) -> Any:
    """Knobs are numbers on the command line, although they may be arrays in Python."""
    if info.type != Knob:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="FLOAT",
        instance_from_str=lambda words: float(words[0]),
        is_instance=lambda value: isinstance(value, int | float),
        str_from_instance=lambda value: [str(value)],
    )


@REGISTRY.primitive_rule
def _optimiser(info: Any) -> Any:
    """Optimisers are names on the command line, although they may be optax transforms in Python."""
    if info.type != Optimiser:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="{adamw,sgd}",
        choices=("adamw", "sgd"),
        instance_from_str=lambda words: words[0],
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )


@dataclasses.dataclass(frozen=True)
class Train:
    """Trains a new run. Fields of CONFIG may be given behind it, such as --selfplay.games 128."""

    run_dir: str
    """Folder of the new run."""
    preset: str | None = None
    """A named search, with all its knobs, in the place of the config's; see `azchess presets`."""
    profile: bool = False
    """Write a trace of the third iteration."""
    devices: int | None = None
    """Devices to play on; all by default."""
    tensorboard: bool = False
    """Also log to TensorBoard (extra `tensorboard`)."""
    wandb: bool = False
    """Also log to Weights & Biases (extra `wandb`)."""
    evaluate: bool = True
    """Measure the network before and after, and write the report, when training ends."""


USAGE = """usage: azchess COMMAND ...

  train CONFIG [--run-dir DIR] [OVERRIDES]   train a preset (configs/*.py) or a config.json
  resume RUN [--iterations N]                continue a run from its newest checkpoint
  eval RUN [--step N]                        measure a run's network before and after training
  report RUN                                 print a table and write report.html
  play RUN [--fen FEN] [...]                 play against a run's network in the terminal
  presets [NAME]                             searches by name: formula, constants and source
  bench [chess | search | selfplay]          measure speed on this machine

azchess COMMAND --help says more."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command that the arguments name; errors of the user end in one line."""
    words = sys.argv[1:] if arguments is None else arguments
    commands = {
        "train": train,
        "resume": resume,
        "eval": evaluate,
        "report": report,
        "play": play,
        "presets": presets,
        "bench": bench,
    }
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE)
        return
    if words[0] not in commands:
        raise SystemExit(f"azchess: no command {words[0]!r}\n\n{USAGE}")
    use_compilation_cache()
    try:
        commands[words[0]](words[1:])
    except (ValueError, RuntimeError, OSError) as error:
        if os.environ.get("AZCHESS_TRACEBACK"):
            raise
        raise SystemExit(f"azchess {words[0]}: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def use_compilation_cache() -> None:
    """Keeps what XLA compiles in the user's cache folder, however short it took."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(pathlib.Path(cache, "azchess", "xla")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def train(words: list[str]) -> None:
    """azchess train CONFIG [--run-dir DIR] [--profile] [OVERRIDES]"""
    from azchess.runs.config import RunConfig, load_config, with_preset
    from azchess.runs.record import TensorBoard, WeightsAndBiases
    from azchess.runs.train import Options, train

    if not words or words[0].startswith("-"):
        print("usage: azchess train CONFIG [--run-dir DIR] [OVERRIDES]")
        raise SystemExit(0 if "--help" in words or "-h" in words else 2)
    path = pathlib.Path(words[0])
    preset = load_config(path)
    if named := _option(words, "--preset"):
        preset = with_preset(preset, named)

    @dataclasses.dataclass(frozen=True)
    class Arguments(Train):
        config: Annotated[RunConfig, tyro.conf.arg(name="")] = preset

    default = Arguments(run_dir=str(next_run_dir(path)))
    chosen = _parse(Arguments, words[1:], f"azchess train {path}", default)
    sinks: list[Any] = []
    if chosen.tensorboard:
        sinks.append(TensorBoard(chosen.run_dir))
    if chosen.wandb:
        sinks.append(WeightsAndBiases(chosen.run_dir, name=pathlib.Path(chosen.run_dir).name))
    options = Options(profile=chosen.profile, devices=chosen.devices)
    console = Console()
    console.print(f"run: {chosen.run_dir}")
    run = train(chosen.config, chosen.run_dir, options, sinks=tuple(sinks), console=console)
    if chosen.evaluate:
        _finish(run, chosen.run_dir, console)


def next_run_dir(config: pathlib.Path) -> pathlib.Path:
    """The first of runs/NAME, runs/NAME-2, ... that is not there yet."""
    stem = config.parent.name if config.stem == "config" else config.stem
    first = pathlib.Path("runs") / stem
    number, path = 1, first
    while path.exists():
        number += 1
        path = first.with_name(f"{first.name}-{number}")
    return path


def resume(words: list[str]) -> None:
    """azchess resume RUN [--iterations N]"""
    from azchess.runs.train import Options, resume

    def arguments(
        run: tyro.conf.Positional[str],
        iterations: int | None = None,
        devices: int | None = None,
        evaluate: bool = True,
    ) -> None:
        """Continues a run from its newest checkpoint, as if it had never stopped.

        Args:
            run: Folder of the run.
            iterations: Iterations to reach, in the place of the config's.
            devices: Devices to play on; all by default.
            evaluate: Measure the network and write the report at the end.
        """
        console = Console()
        state = resume(run, Options(devices=devices), iterations=iterations, console=console)
        if evaluate:
            _finish(state, run, console)

    _parse(arguments, words, "azchess resume")


def evaluate(words: list[str]) -> None:
    """azchess eval RUN [--step N]"""
    from azchess.runs.evaluate import evaluate
    from azchess.runs.report import report

    def arguments(run: tyro.conf.Positional[str], step: int | None = None) -> None:
        """Measures a run's suites before and after training.

        Args:
            run: Folder of the run.
            step: Checkpoint to measure; the newest by default.
        """
        evaluate(run, step)
        report(run)

    _parse(arguments, words, "azchess eval")


def report(words: list[str]) -> None:
    """azchess report RUN"""
    from azchess.runs.report import report

    def arguments(run: tyro.conf.Positional[str]) -> None:
        """Prints a table of a run and writes report.html into its folder.

        Args:
            run: Folder of the run.
        """
        report(run)

    _parse(arguments, words, "azchess report")


def play(words: list[str]) -> None:
    """azchess play RUN"""
    from azchess.runs.play import play

    def arguments(
        run: tyro.conf.Positional[str],
        simulations: int | None = None,
        colour: Literal["white", "black", "random"] = "white",
        fen: str | None = None,
        preset: str | None = None,
    ) -> None:
        """Plays against a run's network in the terminal.

        Args:
            run: Folder of the run.
            simulations: Simulations per move, in the place of the run's.
            colour: Your side.
            fen: Start position.
            preset: A named search in the place of the run's; see `azchess presets`.
        """
        play(run, simulations=simulations, colour=colour, fen=fen, preset=preset)

    _parse(arguments, words, "azchess play")


def presets(words: list[str]) -> None:
    """azchess presets [NAME]"""
    from azchess.search.presets import PRESETS, preset_named

    def arguments(name: tyro.conf.Positional[str | None] = None) -> None:
        """Prints searches that have a name: formula, constants and source.

        Args:
            name: One of them; all by default.
        """
        for preset in (preset_named(name),) if name else PRESETS:
            print(preset)

    _parse(arguments, words, "azchess presets")


def bench(words: list[str]) -> None:
    """azchess bench [chess | search | selfplay]"""
    from azchess.runs.bench import What, bench

    def arguments(what: tyro.conf.Positional[What] = "overview") -> None:
        """Measures speed on this machine.

        Args:
            what: overview, chess (rules beside pgx's), search (beside mctx's) or selfplay (beside
                pgx's way of doing it).
        """
        bench(what)

    _parse(arguments, words, "azchess bench")


def _parse(what: Any, words: list[str], program: str, default: Any = None) -> Any:
    extra = {} if default is None else {"default": default}
    # The preset has chosen the search and the starts; their fields are options like all others.
    conf = (tyro.conf.AvoidSubcommands,)
    return tyro.cli(what, args=words, prog=program, registry=REGISTRY, config=conf, **extra)


def _option(words: list[str], name: str) -> str | None:
    """The value of an option that must be known before the others can be; None where it is not."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(name, dest="value")
    return parser.parse_known_args(words)[0].value


def _finish(run: Any, run_dir: str, console: Console) -> None:
    """Measures and reports a run that has reached its last iteration, not one that was stopped."""
    from azchess.runs.evaluate import evaluate
    from azchess.runs.folder import run_config
    from azchess.runs.report import report

    config = run_config(run_dir)
    if int(run.iteration) < config.iterations:
        return
    if config.evaluation:
        evaluate(run_dir, console=console)
    report(run_dir, console)
