"""Holds train.py to what its first lines promise. Run: python -m unittest (in this folder; needs mujoco and NumPy)."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import train

SCRIPT = Path(train.__file__).resolve()
SEEDS = (1, 2, 3)
LIMIT = 120  # seconds; a run takes about 4


def command(output, *flags):
    return [sys.executable, str(SCRIPT), "--output", str(output), *map(str, flags)]


def run(output, *flags):
    env = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(command(output, *flags), stdout=subprocess.PIPE, timeout=LIMIT, check=True, env=env)
    return done.stdout.decode()


def metrics(output):
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def end_of(output):
    rewards = [line["reward"] for line in metrics(output)]
    return sum(rewards[-5:]) / 5


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda seed: run(cls.root / f"seed{seed}", "--seed", seed), SEEDS))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fresh(self):
        return Path(tempfile.mkdtemp(dir=self.root))

    def test_it_lies_still_in_the_fluid_without_being_told_to_move(self):
        swimmer, rng = train.Swimmer(), np.random.default_rng(0)
        swum, _ = swimmer.episode(np.zeros((train.ACTIONS, train.OBSERVED)), 0.0, 1.0, rng)
        self.assertLess(abs(swum), 0.5)

    def test_learns(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.assertLess(metrics(self.root / f"seed{seed}")[0]["reward"], 1.5)
                self.assertGreater(end_of(self.root / f"seed{seed}"), 2.0)

    def test_a_tiny_step_size_learns_little(self):
        output = self.fresh()
        run(output, "--lr", 1e-5)
        self.assertLess(end_of(output), 1.0)

    def test_each_step_is_reported_once(self):
        steps = [line["step"] for line in metrics(self.root / "seed1")]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_going_on_from_the_middle_ends_the_same(self):
        output = self.fresh()
        run(output, "--seed", 1, "--iterations", 20)
        with open(output / "metrics.jsonl", "a") as file:
            file.write('{"step": 2')  # what a kill between two writes leaves
        text = run(output, "--seed", 1, "--checkpoint", output / "model_0020.json")
        self.assertIn("after iteration 20\niteration 21 ", text)
        for name in ("metrics.jsonl", "model_0040.json"):
            self.assertEqual((output / name).read_bytes(), (self.root / "seed1" / name).read_bytes(), name)

    def test_term_leaves_a_checkpoint_to_go_on_from(self):
        output = self.fresh()
        with subprocess.Popen(command(output, "--seed", 1), stdout=subprocess.PIPE, text=True) as process:
            try:
                while not process.stdout.readline().startswith("iteration 7 "):
                    self.assertIsNone(process.poll())
                process.send_signal(signal.SIGTERM)
                rest, _ = process.communicate(timeout=LIMIT)
            finally:
                process.kill()
        self.assertEqual(process.returncode, 143)
        run(output, "--seed", 1, "--checkpoint", re.search(r"^SIGTERM: saved (.+)$", rest, re.M).group(1))
        self.assertEqual((output / "metrics.jsonl").read_bytes(), (self.root / "seed1" / "metrics.jsonl").read_bytes())

    def test_a_checkpoint_of_other_settings_is_refused(self):
        given = self.root / "seed1" / "model_0020.json"
        done = subprocess.run(command(self.fresh(), "--seed", 9, "--checkpoint", given), stderr=subprocess.PIPE, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"it was made with", done.stderr)


if __name__ == "__main__":
    unittest.main()
