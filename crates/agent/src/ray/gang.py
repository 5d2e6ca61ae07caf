# Holds places for all runs of a group at once, then starts an agent in each of them. Runs as the entrypoint of a Ray job.
# Ray gives the places of a placement group all or none, so two groups that wait hold nothing of each other's.
import ctypes, json, os, signal, subprocess, sys
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

members = json.loads(os.environ["YARD_GANG"])
place = sys.argv[1]
said = {"nodes": {}, "ended": {}, "lost": {}}
stopping = []


def say():
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place + ".part", "w") as file:
        json.dump(said, file)
    os.replace(place + ".part", place)


class Member:
    child = None
    stopped = False

    def node(self):
        return ray.get_runtime_context().get_node_id()

    def run(self, command):
        if self.stopped:
            return 143
        # The agent is told to stop when this process is gone, however it goes.
        tie = lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM)
        env = {name: value for name, value in os.environ.items() if name != "YARD_GANG"}
        self.child = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, env=env, preexec_fn=tie)
        return self.child.wait()

    def stop(self):
        self.stopped = True
        if self.child is not None:
            self.child.terminate()


def seat(pg, index, member):
    options = {
        "num_cpus": member["cpus"],
        "num_gpus": member["gpus"],
        "resources": member["resources"],
        "max_concurrency": 2,
        "max_restarts": 0,
        "scheduling_strategy": PlacementGroupSchedulingStrategy(
            placement_group=pg, placement_group_bundle_index=index
        ),
    }
    if member["memory"]:
        options["memory"] = member["memory"]
    return ray.remote(Member).options(**options).remote()


def bundle(member):
    parts = {"CPU": member["cpus"], "GPU": member["gpus"], "memory": member["memory"] or 0, **member["resources"]}
    # Ray knows no place for nothing.
    return {name: amount for name, amount in parts.items() if amount > 0} or {"CPU": 0.001}


ray.init(log_to_driver=False)
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
pg = placement_group([bundle(member) for member in members])
while not pg.wait(1):
    if stopping:
        sys.exit(143)
seats = [seat(pg, index, member) for index, member in enumerate(members)]
nodes = ray.get([it.node.remote() for it in seats])
said["nodes"] = {str(member["group"]): node for member, node in zip(members, nodes)}
say()
runs = {it.run.remote(member["command"]): (member["group"], it) for member, it in zip(members, seats)}
told = False
while runs:
    if stopping and not told:
        told = True
        for _, it in runs.values():
            it.stop.remote()
    done, _ = ray.wait(list(runs), timeout=1)
    for one in done:
        group, it = runs.pop(one)
        try:
            said["ended"][str(group)] = ray.get(one)
        except Exception as error:
            said["lost"][str(group)] = str(error).strip().splitlines()[0] if str(error).strip() else "lost"
        ray.kill(it)
        say()
sys.exit(1 if said["lost"] else max((abs(code) for code in said["ended"].values()), default=0))
