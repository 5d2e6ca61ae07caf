"""How the files here were made: `write.py torch|tensorflow FOLDER`, with the version in the folder's name.

Both libraries are hundreds of megabytes, so the tests read what they once wrote instead of installing them.
"""

import sys

import numpy


def torch(folder):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(folder, filename_suffix=".a") as writer:
        for step in range(50):
            writer.add_scalar("rollout/ep_rew_mean", step / 7, step * 2048, walltime=1.7e9 + step)
            writer.add_scalar("Loss / Value (mean)", -1e-30 * step, step, walltime=1.7e9 + step, new_style=True)
            writer.add_scalar("exact", 1 / (step + 1), step, walltime=1.7e9 + step, new_style=True, double_precision=True)
        writer.add_scalar("odd", float("nan"), 1, walltime=1.7e9)
        writer.add_scalar("odd", float("inf"), 2, walltime=1.7e9)
        writer.add_text("notes", "**größe** 🤖", 3, walltime=1.7e9)
        writer.add_histogram("weights", numpy.arange(20.0), 4, walltime=1.7e9)
        writer.add_image("camera", numpy.zeros((3, 4, 4), dtype=numpy.uint8), 5, walltime=1.7e9)
    # A second start from an earlier checkpoint.
    with SummaryWriter(folder, filename_suffix=".b", purge_step=40 * 2048) as writer:
        for step in range(40, 60):
            writer.add_scalar("rollout/ep_rew_mean", 1000 + step, step * 2048, walltime=1.7e9 + 100 + step)


def tensorflow(folder):
    import tensorflow as tf

    writer = tf.summary.create_file_writer(folder)
    with writer.as_default():
        for step in range(50):
            tf.summary.scalar("epoch_loss", 1 / (step + 1), step=step)
            tf.summary.scalar("scope/learning rate", 1e-3 * 0.9**step, step=step)
        tf.summary.text("notes", "**größe** 🤖", step=3)
        tf.summary.histogram("weights", numpy.arange(20.0), step=4)
        tf.summary.image("camera", numpy.zeros((1, 4, 4, 3)), step=5)
    writer.close()
    # As programs for TensorFlow 1 wrote them.
    with tf.Graph().as_default():
        old = tf.compat.v1.summary.FileWriter(folder + "/v1")
        for step in range(20):
            value = tf.compat.v1.Summary.Value(tag="reward", simple_value=step * 0.5)
            old.add_summary(tf.compat.v1.Summary(value=[value]), step)
        old.close()


{"torch": torch, "tensorflow": tensorflow}[sys.argv[1]](sys.argv[2])
