"""The other side of `real_writers.rs`: TensorBoard's own readers, and the writers that trainings use.

  real_writers.py write FOLDER   tensorboardX and tensorboard write runs of every kind
  real_writers.py grow FOLDER    tensorboardX writes with many flushes
  real_writers.py read FOLDER    what `EventAccumulator` reads, one point or tag a line
  real_writers.py hparams FOLDER   hyperparameters, as the HParams tab reads them
  real_writers.py serve FOLDER COUNT   the points that TensorBoard's data server has, once it has so many; its web
                                       page shows these

Numbers are printed as the hexadecimal digits of their bits.
"""

import os
import struct
import sys
import time

import numpy
from tensorboard.backend.event_processing.event_accumulator import STORE_EVERYTHING_SIZE_GUIDANCE, EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.context import RequestContext
from tensorboard.data import server_ingester
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util
from tensorboard.util.grpc_util import ChannelCredsType
from tensorboardX import SummaryWriter


def bits(number):
    return struct.pack(">d", number).hex()


def write(folder):
    with SummaryWriter(f"{folder}/train") as writer:
        for step in range(300):
            writer.add_scalar("Train/mean_reward", step / 7, step)
            writer.add_scalar("Loss / Policy loss (mean)", -1e-30 * step, step * 24)
            writer.add_scalars("both", {"one": step, "two": -step}, step)
        for step, value in enumerate([float("inf"), float("-inf"), float("nan"), -0.0]):
            writer.add_scalar("odd", value, step - 2)
        writer.add_text("notes", "**größe** 🤖", 3)
        writer.add_histogram("weights", numpy.arange(100.0), 4)
        writer.add_image("camera", numpy.zeros((3, 8, 8), dtype=numpy.uint8), 5)
    # A crash at step 99, and a second start from the checkpoint of step 60.
    with SummaryWriter(f"{folder}/restarted", filename_suffix=".1") as writer:
        for step in range(100):
            writer.add_scalar("reward", step, step)
            writer.add_scalar("loss", step, step)
    with SummaryWriter(f"{folder}/restarted", filename_suffix=".2", purge_step=60) as writer:
        for step in range(60, 120):
            writer.add_scalar("reward", 1000 + step, step)
    # The same without anyone saying so.
    for suffix, steps in [(".1", range(100)), (".2", range(60, 120))]:
        with SummaryWriter(f"{folder}/resumed", filename_suffix=suffix) as writer:
            for step in steps:
                writer.add_scalar("reward", step + 1000 * steps[0], step)
    with SummaryWriter(f"{folder}/swept") as writer:
        writer.add_hparams({"lr": 0.1, "task": "ant"}, {"reward": 1.5}, name="trial")
    write_tensors(f"{folder}/tensors")


def write_tensors(folder):
    writer = EventFileWriter(folder)
    dtypes = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool"]
    for step in range(5):
        for dtype in dtypes:
            for form in ["content", "list"]:
                array = numpy.array((step - 2) % 250 if dtype.startswith("u") else step - 2).astype(dtype)
                tensor = tensor_util.make_tensor_proto(array)
                if form == "content":
                    for field in ["float_val", "double_val", "half_val", "int_val", "int64_val", "bool_val"]:
                        tensor.ClearField(field)
                    tensor.tensor_content = array.tobytes()
                value = Summary.Value(tag=f"{dtype}/{form}", tensor=tensor)
                if step == 0:
                    value.metadata.CopyFrom(SummaryMetadata(plugin_data={"plugin_name": "scalars"}))
                writer.add_event(Event(wall_time=step + 0.25, step=step, summary=Summary(value=[value])))
    writer.close()


def grow(folder):
    with SummaryWriter(folder, max_queue=1) as writer:
        for step in range(2000):
            writer.add_scalar("reward", step / 3, step)
            if step % 5 == 0:
                writer.flush()


def read(folder):
    for path, _, names in sorted(os.walk(folder)):
        if not any("tfevents" in name for name in names):
            continue
        run = os.path.relpath(path, folder)
        accumulator = EventAccumulator(path, STORE_EVERYTHING_SIZE_GUIDANCE).Reload()
        tags = accumulator.Tags()
        for tag in tags["scalars"]:
            print(run, tag, "Scalar", sep="\t")
            for point in accumulator.Scalars(tag):
                print(run, tag, point.step, bits(point.wall_time), bits(point.value), sep="\t")
        for kind, name in [("images", "Image"), ("histograms", "Histogram")]:
            for tag in tags[kind]:
                print(run, tag, name, sep="\t")
        for tag in tags["tensors"]:
            plugin = accumulator.SummaryMetadata(tag).plugin_data.plugin_name
            print(run, tag, {"scalars": "Scalar", "text": "Text"}[plugin], sep="\t")
            for point in accumulator.Tensors(tag):
                item = tensor_util.make_ndarray(point.tensor_proto).item()
                if plugin == "scalars":
                    print(run, tag, point.step, bits(point.wall_time), bits(item), sep="\t")
                else:
                    print(run, tag, "text", point.step, bits(point.wall_time), item.hex(), sep="\t")


def hparams(folder):
    from tensorboard.plugins.hparams import metadata

    for path, _, names in sorted(os.walk(folder)):
        if not any("tfevents" in name for name in names):
            continue
        run = os.path.relpath(path, folder)
        accumulator = EventAccumulator(path, STORE_EVERYTHING_SIZE_GUIDANCE).Reload()
        contents = accumulator.PluginTagToContent("hparams")
        start = metadata.parse_session_start_info_plugin_data(contents[metadata.SESSION_START_INFO_TAG])
        for name, value in sorted(start.hparams.items()):
            print(run, start.group_name, name, getattr(value, value.WhichOneof("kind")), sep="\t")
        end = metadata.parse_session_end_info_plugin_data(contents[metadata.SESSION_END_INFO_TAG])
        print(run, "status", end.status, end.end_time_secs, sep="\t")


def serve(folder, expected):
    server = server_ingester.SubprocessServerDataIngester(
        server_binary=server_ingester.get_server_binary(),
        logdir=folder,
        reload_interval=1,
        channel_creds_type=ChannelCredsType.LOCAL,
        samples_per_plugin={"scalars": 0},
    )
    server.start()
    # It answers before it has read everything, and does not say when it has.
    limit = time.monotonic() + 30
    points = scalars_of(server)
    while len(points) < int(expected) and time.monotonic() < limit:
        points = scalars_of(server)
    for point in points:
        print(*point, sep="\t")


def scalars_of(server):
    arguments = {"experiment_id": "", "plugin_name": "scalars", "downsample": 1_000_000}
    runs = server.data_provider.read_scalars(RequestContext(), **arguments)
    return [
        (run, tag, point.step, bits(point.wall_time), bits(point.value))
        for run, tags in runs.items()
        for tag, points in tags.items()
        for point in points
    ]


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
