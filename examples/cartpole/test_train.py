"""Holds train.py to what its first lines promise. Run: python3 -m unittest (in this folder, under 40 s)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

import train

SCRIPT = Path(train.__file__).resolve()
SEEDS = (1, 2, 3, 4)
LIMIT = 60  # seconds; a run takes about 3


def command(output, *flags):
    return [sys.executable, str(SCRIPT), "--output", str(output), *map(str, flags)]


def run(output, *flags):
    done = subprocess.run(command(output, *flags), stdout=subprocess.PIPE, timeout=LIMIT, check=True)
    return done.stdout.decode()


def final_reward(text):
    return float(re.search(r"^final reward (\S+) over 20 episodes\n\Z", text, re.M).group(1))


def files(output):
    return {path.name: path.read_bytes() for path in output.iterdir()}


def differing(one, other, *names):
    """Names of the files that are not the same bytes in both folders, of those given or of all."""
    left, right = files(one), files(other)
    return [name for name in sorted(names or left.keys() | right.keys()) if left.get(name) != right.get(name)]


def signalled_after(iteration, number, output, *flags):
    """Starts a training, sends it `number` once it has reported `iteration`; its exit status and output."""
    with subprocess.Popen(command(output, *flags), stdout=subprocess.PIPE, universal_newlines=True) as process:
        try:
            lines = []
            while not lines or not lines[-1].startswith(f"iteration {iteration} "):
                lines.append(process.stdout.readline())
                if not lines[-1]:
                    raise AssertionError(f"ended early: {lines}")
            process.send_signal(number)
            rest, _ = process.communicate(timeout=LIMIT)
            return process.returncode, "".join(lines) + rest
        finally:
            process.kill()


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            texts = pool.map(lambda seed: run(cls.root / f"seed{seed}", "--seed", seed), SEEDS)
            cls.texts = dict(zip(SEEDS, texts))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fresh(self):
        return Path(tempfile.mkdtemp(dir=self.root))

    def test_physics_is_the_classic_cart_pole(self):
        # by hand from the equations of motion: rest, upright, one push to the right
        x, v, angle, spin = train.advance((0.0, 0.0, 0.0, 0.0), 10.0)
        self.assertEqual((x, angle), (0.0, 0.0))
        self.assertAlmostEqual(v, 0.02 * 400 / 41)
        self.assertAlmostEqual(spin, -0.02 * 600 / 41)

    def test_learns(self):
        for seed in SEEDS:
            lines = (self.root / f"seed{seed}" / "metrics.jsonl").read_text().splitlines()
            rewards = [json.loads(line)["reward"] for line in lines]
            begin, end = sum(rewards[:5]) / 5, sum(rewards[-5:]) / 5
            with self.subTest(seed=seed):
                self.assertLess(begin, 100)
                self.assertGreater(end, begin + 150)
                self.assertGreaterEqual(final_reward(self.texts[seed]), 195)

    def test_bad_hyperparameters_do_not_learn(self):
        for flag, value in (("--lr", 0.001), ("--noise", 0.01)):
            with self.subTest(flag=flag):
                self.assertLess(final_reward(run(self.fresh(), flag, value)), 100)

    def test_metrics_match_what_is_printed(self):
        printed = re.findall(r"^iteration (\d+) reward (\S+) best (\S+)$", self.texts[1], re.M)
        lines = [json.loads(line) for line in (self.root / "seed1" / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([(str(m["step"]), f"{m['reward']:.1f}", f"{m['best']:.1f}") for m in lines], printed)
        self.assertEqual([m["step"] for m in lines], list(range(1, 101)))
        self.assertEqual([m["best"] for m in lines], list(accumulate((m["reward"] for m in lines), max)))

    def test_same_seed_same_bytes_other_seed_other_bytes(self):
        one, again, other = (self.fresh() for _ in range(3))
        texts = [run(folder, "--seed", seed, "--iterations", 12) for folder, seed in ((one, 7), (again, 7), (other, 8))]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(differing(one, again), [])
        self.assertNotEqual(texts[0], texts[2])

    def test_going_on_from_the_middle_ends_the_same(self):
        # the first run was stopped by its own limit, so nothing after iteration 40 is known to the second
        output = self.fresh()
        run(output, "--seed", 1, "--iterations", 40, "--slow", 0.001)
        text = run(output, "--seed", 1, "--checkpoint", output / "model_0040.json")
        self.assertIn("after iteration 40\niteration 41 ", text)
        self.assertEqual(final_reward(text), final_reward(self.texts[1]))
        self.assertEqual(differing(output, self.root / "seed1"), [])

    def test_an_older_checkpoint_repeats_without_writing_a_step_twice(self):
        output = self.fresh()
        shutil.copytree(self.root / "seed2", output / "logs")
        run(output / "logs", "--seed", 2, "--checkpoint", output / "logs" / "model_0060.json")
        self.assertEqual(differing(output / "logs", self.root / "seed2"), [])

    def test_term_leaves_a_checkpoint_to_go_on_from(self):
        output = self.fresh()
        status, text = signalled_after(42, signal.SIGTERM, output, "--seed", 3)
        self.assertEqual(status, 143)
        saved = re.search(r"^SIGTERM: saved (.+)\n\Z", text, re.M).group(1)
        for path in output.glob("model_*.json"):
            state = json.loads(path.read_text())
            self.assertEqual(path.name, f"model_{state['iteration']:04d}.json")
        self.assertEqual([name for name in files(output) if not re.match(r"model_\d+\.json$|metrics\.jsonl$", name)], [])

        text = run(output, "--seed", 3, "--checkpoint", saved)
        self.assertEqual(final_reward(text), final_reward(self.texts[3]))
        self.assertEqual(differing(output, self.root / "seed3", "metrics.jsonl", "model_0100.json"), [])

    def test_term_is_answered_during_the_sleep(self):
        output = self.fresh()
        status, _ = signalled_after(1, signal.SIGTERM, output, "--slow", 10 * LIMIT)
        self.assertEqual(status, 143)
        self.assertEqual(sorted(files(output)), ["metrics.jsonl", "model_0001.json"])

    def test_usr2_saves_and_goes_on(self):
        output = self.fresh()
        status, text = signalled_after(12, signal.SIGUSR2, output, "--iterations", 40)
        self.assertEqual(status, 0)
        saved = Path(re.search(r"^SIGUSR2: saved (.+)$", text, re.M).group(1))
        self.assertGreaterEqual(json.loads(saved.read_text())["iteration"], 12)
        self.assertIn("\niteration 40 ", text)

    def test_kill_leaves_whole_checkpoints_and_resume_finds_the_newest(self):
        output = self.fresh()
        status, _ = signalled_after(33, signal.SIGKILL, output, "--seed", 4)
        self.assertEqual(status, -signal.SIGKILL)
        for path in output.glob("model_*.json"):
            json.loads(path.read_text())
        with open(output / "metrics.jsonl", "a") as file:
            file.write('{"step": 9')  # what a kill between two writes leaves
        run(output, "--seed", 4, "--resume")
        self.assertEqual(differing(output, self.root / "seed4", "metrics.jsonl", "model_0100.json"), [])

    def test_a_crash_while_saving_leaves_nothing_that_looks_like_a_checkpoint(self):
        output = self.fresh()
        learner = train.Learner({"seed": 1, "lr": 0.1, "noise": 1.0, "population": 2})
        learner.weights = [0.0, object()]  # fails halfway through the file
        with self.assertRaises(TypeError):
            train.save(learner, output)
        self.assertEqual(list(output.glob("model_*.json")), [])
        self.assertNotEqual(list(output.iterdir()), [])

    def test_a_fresh_start_forgets_the_earlier_training_in_the_folder(self):
        output = self.fresh()
        (output / "model_of_mine.json").write_text("{}")
        run(output, "--seed", 5, "--iterations", 10)
        run(output, "--seed", 6, "--iterations", 5)
        self.assertEqual(sorted(files(output)), ["metrics.jsonl", "model_0005.json", "model_of_mine.json"])
        self.assertEqual(files(output)["metrics.jsonl"].count(b"\n"), 5)

    def test_a_checkpoint_of_another_training_is_refused(self):
        checkpoint = self.root / "seed1" / "model_0050.json"
        argv = command(self.fresh(), "--seed", 2, "--checkpoint", checkpoint)
        done = subprocess.run(argv, stderr=subprocess.PIPE, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"it was made with {'seed': 1", done.stderr)

    def test_output_folder_comes_from_the_environment(self):
        work = self.fresh()
        argv = [sys.executable, str(SCRIPT), "--iterations", "1"]
        quiet = {"cwd": str(work), "stdout": subprocess.DEVNULL, "timeout": LIMIT, "check": True}
        bare = {name: value for name, value in os.environ.items() if name != "YARD_OUTPUT"}
        subprocess.run(argv, env=bare, **quiet)
        subprocess.run(argv, env=dict(bare, YARD_OUTPUT="elsewhere"), **quiet)
        self.assertEqual(sorted(path.name for path in work.iterdir()), ["elsewhere", "logs"])


if __name__ == "__main__":
    unittest.main()
