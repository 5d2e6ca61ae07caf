//! SLURM: what its commands are asked, what their answers mean, and the batch script. Pure; nothing is called here.
//!
//! Only text formats that are named field by field are read: SLURM's JSON has another shape in every release.

mod facts;
mod fit;
mod moment;
mod propose;
mod queue;
mod script;
mod state;
mod step;
mod submit;
mod text;
mod words;

pub use facts::{
    Answer, Association, Facts, GpuKind, Nodes, Partition, ProbeError, Settings, machine_script, probe_script,
};
pub use fit::{allocation_time, lanes, mechanism, refuse, runs_per_group, split};
pub use propose::{accounts, gpu_request, partition, unknown_qos};
pub use queue::{
    Accounting, AccountingRow, Exit, Queue, QueueRow, Task, accounting, cancel, cancel_tasks, parse_accounting,
    parse_queue, parse_submitted, queue,
};
pub use script::{Array, Directive, PlanError, Script, Wanted};
pub use state::{Interruption, SlurmState, StateClass};
pub use step::{rendezvous_port, step};
pub use submit::{UNSET, requeue, submit, successor};
pub use text::DirectiveError;
pub use words::{Explained, Waiting, explain, waiting};
