//! `slurm.conf` and its companions.

use std::fmt::Write;

use crate::stage::{Stage, set_mode};

use super::{Options, Ports};

/// Also makes the folders that are named in it.
pub(super) fn write(stage: &Stage, options: &Options, ports: &Ports, version: &str) {
    let folder = stage.folder();
    for name in ["run", "state", "spool"] {
        std::fs::create_dir(folder.join(name)).expect("a folder");
    }
    let key = folder.join("run/munge.key");
    std::fs::write(&key, [b'y'; 128]).expect("a key");
    set_mode(&key, 0o400);
    for turn in 1..=options.nodes {
        std::fs::create_dir(folder.join(format!("spool/n{turn}"))).expect("a folder");
    }
    // GPUs have to be character devices; these need no rights and are never opened.
    stage.write("gres.conf", &format!("NodeName=n[1-{}] Name=gpu Type=a100 File=/dev/tty[0-3]\n", options.nodes));
    if version >= "23" {
        stage.write("cgroup.conf", "CgroupPlugin=disabled\n");
    }
    stage.write("slurm.conf", &text(stage, options, ports));
}

fn text(stage: &Stage, options: &Options, ports: &Ports) -> String {
    let d = stage.folder().display();
    let user = if rustix::process::geteuid().is_root() { "root".to_owned() } else { stage.add_user().name };
    let Options { job_requeue, max_array, kill_wait, .. } = options;
    // `cred_expire=5`: without it a requeued job waits two minutes; less than 5 is taken for 120.
    // `config_overrides`: the nodes have more processors than the machine.
    let mut text = format!(
        "ClusterName=yard
SlurmctldHost=admin(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={d}/run/munge.sock,cred_expire=5
StateSaveLocation={d}/state
SlurmdSpoolDir={d}/spool/%n
SlurmctldPidFile={d}/run/slurmctld.pid
SlurmdPidFile={d}/run/slurmd-%n.pid
SlurmctldLogFile={d}/log/slurmctld.log
SlurmdLogFile={d}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=10
KillWait={kill_wait}
JobRequeue={requeue}
MaxArraySize={max_array}
MaxJobCount=50000
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0,sched_min_interval=0
JobCompType=jobcomp/filetxt
JobCompLoc={d}/log/jobcomp.txt
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES DefaultTime=5 MaxTime=60
PartitionName=short Nodes=ALL DefaultTime=1 MaxTime=1
PartitionName=gpu Nodes=ALL DefaultTime=5 MaxTime=240
PartitionName=high Nodes=ALL DefaultTime=5 MaxTime=60 PriorityTier=10 PreemptMode=OFF
",
        controller = ports.controller,
        requeue = u8::from(*job_requeue),
    );
    for (turn, port) in ports.nodes.iter().enumerate() {
        let node = format!("NodeName=n{} NodeAddr=127.0.0.1 Port={port}", turn + 1);
        writeln!(text, "{node} CPUs=4 RealMemory=4000 Gres=gpu:a100:4").expect("memory");
    }
    if options.accounting {
        text.push_str(&super::accounting::lines(stage, ports.database));
    }
    options.extra.iter().for_each(|line| writeln!(text, "{line}").expect("memory"));
    text
}
