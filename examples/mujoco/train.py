#!/usr/bin/env python3
"""Teaches a swimmer of three links to swim, in some seconds on one core, with MuJoCo and NumPy.

The learner is augmented random search (Mania, Guy and Recht, 2018, version V2-t) over a linear policy: observations are
normalised by what was seen so far, random directions are tried both ways, and only the best of them count. A run is a
function of its flags: the generator's state is in every checkpoint, so an interrupted run ends with the same numbers as
one that was left alone.
"""

import argparse
import json
import math
import os
import re
import signal
import sys
from pathlib import Path

import mujoco
import numpy as np

# A chain of three links in a viscous fluid, on a plane. Nothing but the fluid holds it, so it has to push itself off.
SWIMMER = """
<mujoco model="swimmer">
  <option timestep="0.02" density="4000" viscosity="0.1" integrator="implicitfast">
    <flag contact="disable" gravity="disable"/>
  </option>
  <default>
    <geom type="capsule" size="0.1" density="1000"/>
    <joint armature="0.1"/>
  </default>
  <worldbody>
    <body name="head">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 1 0"/>
      <joint name="turn" type="hinge" axis="0 0 1"/>
      <geom fromto="0.5 0 0 1.5 0 0"/>
      <body name="middle" pos="0.5 0 0">
        <joint name="front" type="hinge" axis="0 0 1" limited="true" range="-100 100"/>
        <geom fromto="0 0 0 -1 0 0"/>
        <body name="tail" pos="-1 0 0">
          <joint name="back" type="hinge" axis="0 0 1" limited="true" range="-100 100"/>
          <geom fromto="0 0 0 -1 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="front" gear="150" ctrllimited="true" ctrlrange="-1 1"/>
    <motor joint="back" gear="150" ctrllimited="true" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
"""
FRAME_SKIP, DECISIONS = 4, 125  # an episode is ten seconds
OBSERVED, ACTIONS = 8, 2

CHECKPOINT_EVERY = 5  # iterations
SETTINGS = ("seed", "lr", "noise", "directions", "top")


class Swimmer:
    def __init__(self):
        self.model = mujoco.MjModel.from_xml_string(SWIMMER)
        self.data = mujoco.MjData(self.model)

    def episode(self, weights, mean, spread, rng):
        """Metres swum along x, and what was seen on the way."""
        data = self.data
        mujoco.mj_resetData(self.model, data)
        data.qpos[:] = rng.uniform(-0.1, 0.1, self.model.nq)
        data.qvel[:] = rng.uniform(-0.1, 0.1, self.model.nv)
        began = data.qpos[0]
        seen = np.empty((DECISIONS, OBSERVED))
        for observation in seen:
            observation[:3], observation[3:] = data.qpos[2:], data.qvel
            data.ctrl[:] = weights @ ((observation - mean) / spread)
            mujoco.mj_step(self.model, data, FRAME_SKIP)
        swum = float(data.qpos[0] - began)
        return (swum if math.isfinite(swum) else 0.0), seen


class Learner:
    """The whole state of a training; `state` and `restore` are exact inverses."""

    def __init__(self, settings):
        self.settings = settings
        self.swimmer = Swimmer()
        self.rng = np.random.default_rng(settings["seed"])
        self.weights = np.zeros((ACTIONS, OBSERVED))
        self.count, self.sum, self.squares = 0, np.zeros(OBSERVED), np.zeros(OBSERVED)
        self.iteration = 0
        self.best = -math.inf

    def normalisation(self):
        if self.count == 0:
            return np.zeros(OBSERVED), np.ones(OBSERVED)
        mean = self.sum / self.count
        return mean, np.sqrt(np.maximum(self.squares / self.count - mean * mean, 1e-8))

    def improve(self):
        """One iteration; returns its metrics."""
        noise, count = self.settings["noise"], self.settings["directions"]
        mean, spread = self.normalisation()
        directions = self.rng.standard_normal((count, ACTIONS, OBSERVED))
        returns = np.empty((count, 2))
        for direction, pair in zip(directions, returns):
            for place, way in enumerate((noise, -noise)):
                pair[place], seen = self.swimmer.episode(self.weights + way * direction, mean, spread, self.rng)
                self.look(seen)
        best = np.argsort(-returns.max(axis=1), kind="stable")[: min(self.settings["top"], count)]
        used = returns[best]
        if used.std() > 0:
            step = np.tensordot(used[:, 0] - used[:, 1], directions[best], axes=1)
            self.weights = self.weights + self.settings["lr"] / (len(best) * used.std()) * step

        self.iteration += 1
        reward, _ = self.swimmer.episode(self.weights, *self.normalisation(), self.rng)
        self.best = max(self.best, reward)
        return {"step": self.iteration, "reward": reward, "best": self.best, "directions_reward": float(returns.mean())}

    def look(self, seen):
        if np.isfinite(seen).all():
            self.count += len(seen)
            self.sum = self.sum + seen.sum(axis=0)
            self.squares = self.squares + (seen * seen).sum(axis=0)

    def state(self):
        arrays = {name: getattr(self, name).tolist() for name in ("weights", "sum", "squares")}
        plain = {name: getattr(self, name) for name in ("settings", "iteration", "best", "count")}
        return {**plain, **arrays, "rng": self.rng.bit_generator.state}

    def restore(self, state):
        if state["settings"] != self.settings:
            raise ValueError(f"it was made with {state['settings']}, not with {self.settings}")
        self.iteration, self.best, self.count = state["iteration"], state["best"], state["count"]
        self.weights, self.sum, self.squares = (np.array(state[name]) for name in ("weights", "sum", "squares"))
        self.rng.bit_generator.state = state["rng"]


def save(learner, output):
    """Writes `model_NNNN.json`. The name appears when the contents are complete and on disk, never before."""
    path = output / f"model_{learner.iteration:04d}.json"
    draft = output / f".{path.name}.part"
    with open(draft, "w") as file:
        json.dump(learner.state(), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    return path


def metrics_file(path, step):
    """For adding to; of an earlier attempt only the lines up to the step that is gone on from are kept."""
    lines = path.read_text().splitlines(keepends=True) if step and path.exists() else []
    kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
    file = open(path, "a")
    file.truncate(len("".join(kept)))
    return file


def positive(kind):
    def parse(text):
        number = kind(text)
        if not 0 < number < math.inf:
            raise ValueError
        return number

    parse.__name__ = f"positive {kind.__name__}"  # argparse puts it in the error message
    return parse


def arguments():
    parser = argparse.ArgumentParser(description="Learn to swim with augmented random search.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=positive(float), default=0.1, help="step size (default %(default)s)")
    parser.add_argument("--noise", type=positive(float), default=0.2, help="size of the tried changes (%(default)s)")
    parser.add_argument("--directions", type=positive(int), default=8, help="tried in an iteration (%(default)s)")
    parser.add_argument("--top", type=positive(int), default=4, help="directions that count (%(default)s)")
    parser.add_argument("--iterations", type=positive(int), default=40, help="in all (default %(default)s)")
    parser.add_argument("--checkpoint", type=Path, metavar="PATH", help="go on from this checkpoint")
    parser.add_argument("--output", type=Path, default=os.environ.get("YARD_OUTPUT") or "logs", metavar="DIR")
    return parser, parser.parse_args()


def main():
    parser, args = arguments()
    caught = []
    for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: caught.append(number))

    args.output.mkdir(parents=True, exist_ok=True)
    learner = Learner({name: getattr(args, name) for name in SETTINGS})
    if args.checkpoint:
        try:
            learner.restore(json.loads(args.checkpoint.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(f"cannot go on from {args.checkpoint}: {error}")
        print(f"going on from {args.checkpoint} after iteration {learner.iteration}", flush=True)
    else:
        for stale in args.output.iterdir():  # of an earlier training in this folder; a resume must not find them
            if re.fullmatch(r"model_\d{4,}\.json", stale.name):
                stale.unlink()

    with metrics_file(args.output / "metrics.jsonl", learner.iteration) as metrics:
        while learner.iteration < args.iterations:
            line = learner.improve()
            metrics.write(json.dumps(line) + "\n")
            metrics.flush()
            print("iteration {step} reward {reward:.2f} best {best:.2f}".format(**line), flush=True)
            if learner.iteration % CHECKPOINT_EVERY == 0 or learner.iteration == args.iterations:
                save(learner, args.output)
            while caught:
                number = caught.pop(0)
                print(f"{signal.Signals(number).name}: saved {save(learner, args.output)}", flush=True)
                if number != signal.SIGUSR2:
                    sys.exit(128 + number)

    print(f"swims {learner.best:.2f} m in ten seconds at best")


if __name__ == "__main__":
    main()
