#!/usr/bin/env python3
"""Learns to balance a pole on a cart, in a few seconds, with nothing but the standard library.

The learner is augmented random search (Mania, Guy and Recht, 2018, version V1) over a linear policy: try a
handful of random directions, each both ways, and step along those that paid off. A run is a function of its
flags: the state of the random generator is in every checkpoint, so an interrupted run that goes on ends with
the same numbers as one that was left alone.
"""

import argparse
import json
import math
import os
import random
import re
import signal
import sys
import time
from pathlib import Path

# The cart-pole of Barto, Sutton and Anderson (1983), with the constants of Gymnasium's CartPole-v1.
GRAVITY, CART_MASS, POLE_MASS, HALF_LENGTH, FORCE, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
TOTAL_MASS, POLE_MOMENT = CART_MASS + POLE_MASS, POLE_MASS * HALF_LENGTH
TRACK_END, FALLEN, LONGEST_EPISODE = 2.4, math.radians(12), 500

CHECKPOINT_EVERY = 5  # iterations
REWARD_EPISODES, FINAL_EPISODES = 10, 20
SETTINGS = ("seed", "lr", "noise", "population")


def advance(state, force):
    """One Euler step of the cart-pole: (x, v, angle, spin) after TAU seconds."""
    x, v, angle, spin = state
    sine, cosine = math.sin(angle), math.cos(angle)
    push = (force + POLE_MOMENT * spin * spin * sine) / TOTAL_MASS
    inertia = HALF_LENGTH * (4 / 3 - POLE_MASS * cosine * cosine / TOTAL_MASS)
    spin_up = (GRAVITY * sine - cosine * push) / inertia
    speed_up = push - POLE_MOMENT * spin_up * cosine / TOTAL_MASS
    return x + TAU * v, v + TAU * speed_up, angle + TAU * spin, spin + TAU * spin_up


def episode(weights, rng):
    """Steps the policy keeps the pole up. It pushes right with probability sigmoid(weights · state)."""
    state = tuple(rng.uniform(-0.05, 0.05) for _ in range(4))
    # Each quantity is divided by about its largest value, so that one noise suits all four weights.
    to_x, to_v, to_angle, to_spin = (w / s for w, s in zip(weights, (TRACK_END, 3.0, FALLEN, 3.0)))
    for steps in range(1, LONGEST_EPISODE + 1):
        x, v, angle, spin = state
        score = to_x * x + to_v * v + to_angle * angle + to_spin * spin
        # sigmoid(score) = (1 + tanh(score / 2)) / 2, which cannot overflow
        right = 2 * rng.random() - 1 < math.tanh(score / 2)
        state = advance(state, FORCE if right else -FORCE)
        if abs(state[0]) > TRACK_END or abs(state[2]) > FALLEN:
            return steps
    return LONGEST_EPISODE


def mean_reward(weights, rng, episodes):
    return sum(episode(weights, rng) for _ in range(episodes)) / episodes


class Learner:
    """The whole state of a training; `state` and `restore` are exact inverses."""

    def __init__(self, settings):
        self.settings = settings
        self.rng = random.Random(settings["seed"])
        self.weights = [0.0] * 4
        self.iteration = 0
        self.best = 0.0

    def improve(self):
        """One iteration; returns its metrics."""
        noise, population = self.settings["noise"], self.settings["population"]
        trials = []
        for _ in range(population):
            direction = [self.rng.gauss(0, 1) for _ in self.weights]
            there, back = (
                episode([w + way * d for w, d in zip(self.weights, direction)], self.rng) for way in (noise, -noise)
            )
            trials.append((there, back, direction))
        returns = [reward for there, back, _ in trials for reward in (there, back)]
        mean = sum(returns) / len(returns)
        spread = math.sqrt(sum((r - mean) ** 2 for r in returns) / len(returns))
        if spread > 0:
            scale = self.settings["lr"] / (population * spread)
            for i in range(len(self.weights)):
                self.weights[i] += scale * sum((there - back) * d[i] for there, back, d in trials)

        self.iteration += 1
        reward = mean_reward(self.weights, self.rng, REWARD_EPISODES)
        self.best = max(self.best, reward)
        return {"step": self.iteration, "reward": reward, "best": self.best, "population_reward": round(mean, 3)}

    def state(self):
        return {
            "settings": self.settings,
            "iteration": self.iteration,
            "best": self.best,
            "weights": self.weights,
            "rng": self.rng.getstate(),
        }

    def restore(self, state):
        if state["settings"] != self.settings:
            raise ValueError(f"it was made with {state['settings']}, not with {self.settings}")
        self.iteration, self.best, self.weights = state["iteration"], state["best"], state["weights"]
        version, words, next_gauss = state["rng"]
        self.rng.setstate((version, tuple(words), next_gauss))


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


def checkpoints(output):
    """Those of this program in the folder, oldest first."""
    own = (path for path in output.iterdir() if re.fullmatch(r"model_\d{4,}\.json", path.name))
    return sorted(own, key=lambda path: int(path.stem[len("model_") :]))


class Metrics:
    """One JSON object a line, each step once.

    A run that goes on repeats the iterations after its checkpoint; their lines are there already and would be
    the same, so the file only ever grows and a program that follows it never sees a step twice.
    """

    def __init__(self, path, go_on):
        text = path.read_text() if go_on and path.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # a killed run may leave half a line
        self.last_step = json.loads(whole.splitlines()[-1])["step"] if whole else 0
        self.file = open(path, "a")
        self.file.truncate(len(whole))

    def write(self, line):
        if line["step"] > self.last_step:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()


def answer_signals(learner, output, caught, seconds):
    """Waits `seconds` (0: only looks). USR2 asks for a checkpoint; TERM and INT ask for one and the end."""
    until = time.monotonic() + seconds
    while True:
        while caught:
            number = caught.pop(0)
            path = save(learner, output)
            print(f"{signal.Signals(number).name}: saved {path}", flush=True)
            if number != signal.SIGUSR2:
                sys.exit(128 + number)
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, 0.05))


def positive(kind):
    def parse(text):
        number = kind(text)
        if not 0 < number < math.inf:
            raise ValueError
        return number

    parse.__name__ = f"positive {kind.__name__}"  # argparse puts it in the error message
    return parse


def arguments():
    parser = argparse.ArgumentParser(description="Learn CartPole with augmented random search.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=positive(float), default=0.1, help="step size (default %(default)s)")
    parser.add_argument("--noise", type=positive(float), default=1.0, help="size of the tried changes (%(default)s)")
    parser.add_argument("--population", type=positive(int), default=32, help="directions an iteration (%(default)s)")
    parser.add_argument("--iterations", type=positive(int), default=100, help="in all (default %(default)s)")
    parser.add_argument("--checkpoint", type=Path, metavar="PATH", help="go on from this checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in DIR, if any")
    parser.add_argument("--output", type=Path, default=os.environ.get("YARD_OUTPUT") or "logs", metavar="DIR")
    parser.add_argument("--slow", type=float, default=0.0, metavar="SECONDS", help="sleep after each iteration")
    return parser, parser.parse_args()


def main():
    parser, args = arguments()
    caught = []
    for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: caught.append(number))

    output = args.output
    output.mkdir(parents=True, exist_ok=True)
    found = checkpoints(output)
    start = args.checkpoint or (found[-1] if args.resume and found else None)
    learner = Learner({name: getattr(args, name) for name in SETTINGS})
    if start:
        try:
            learner.restore(json.loads(start.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(f"cannot go on from {start}: {error}")
        print(f"going on from {start} after iteration {learner.iteration}", flush=True)
    else:
        for stale in found:  # of an earlier training in this folder; a resume must not find them
            stale.unlink()
    metrics = Metrics(output / "metrics.jsonl", go_on=bool(start))

    while learner.iteration < args.iterations:
        line = learner.improve()
        metrics.write(line)
        print("iteration {step} reward {reward:.1f} best {best:.1f}".format(**line), flush=True)
        if learner.iteration % CHECKPOINT_EVERY == 0 or learner.iteration == args.iterations:
            save(learner, output)
        answer_signals(learner, output, caught, args.slow)

    print(f"final reward {mean_reward(learner.weights, learner.rng, FINAL_EPISODES):.1f} over {FINAL_EPISODES} episodes")


if __name__ == "__main__":
    main()
