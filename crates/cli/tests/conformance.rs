//! The local target passes what everything that runs things must pass.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use trainyard_agent::depot::Depot;
use trainyard_agent::order::{Order, Secrets, Source};
use trainyard_core::id::{RunId, Token};
use trainyard_core::spec::{Command, JobSpec, Layer, load};
use trainyard_engine::snapshot::{Rules, take};
use trainyard_engine::target::{Declared, Handle, Local, Observation, Stop, Target};
use trainyard_testkit::conformance::{Seen, Subject, all, new_run};

struct Here {
    target: Local,
    depot: Depot,
    source: Source,
    job: JobSpec,
    sent: HashMap<RunId, Order>,
    runtime: tokio::runtime::Runtime,
    tasks: tokio::task::LocalSet,
}

impl Here {
    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.tasks.block_on(&self.runtime, async {
            // Its agents are heard only while something is waited for.
            tokio::time::sleep(Duration::from_millis(5)).await;
            future.await
        })
    }

    fn handle(&self, run: RunId) -> Handle {
        Handle { depot: self.depot.clone(), run, attempt: 1, token: Token::new(run, 1) }
    }

    fn submit(&self, order: Order) -> bool {
        self.wait(self.target.submit(order, Secrets::default())).is_ok()
    }
}

impl Subject for Here {
    fn start(&mut self, command: &[&str]) -> RunId {
        let run = new_run();
        let mut job = self.job.clone();
        job.command = Command::Argv(command.iter().map(|part| (*part).to_owned()).collect());
        let order = Order {
            depot: self.depot.clone(),
            run,
            name: "conformance".to_owned(),
            attempt: 1,
            token: Token::new(run, 1),
            job,
            seed: None,
            from: None,
            params: Default::default(),
            extra: Vec::new(),
            source: self.source.clone(),
            env: [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into(),
            devices: Vec::new(),
            lease: None,
        };
        self.sent.insert(run, order.clone());
        assert!(self.submit(order), "the target takes it");
        run
    }

    fn send_again(&mut self, run: RunId) {
        self.submit(self.sent[&run].clone());
    }

    fn look(&mut self, runs: &[RunId]) -> Vec<Seen> {
        let handles: Vec<Handle> = runs.iter().map(|run| self.handle(*run)).collect();
        let seen = self.wait(self.target.observe(&handles)).unwrap().into_iter().map(|seen| match seen {
            Observation::Running { .. } => Seen::Running,
            Observation::Ended { result } => Seen::Ended(result.outcome),
            Observation::NeverStarted | Observation::Gone => Seen::Unknown,
            Observation::Lost { why } => panic!("lost: {why}"),
            Observation::Doubt { .. } => Seen::Doubt,
        });
        seen.collect()
    }

    fn log(&mut self, run: RunId, from: u64) -> (Vec<u8>, u64) {
        let chunk = self.wait(self.target.logs(&self.handle(run), from)).unwrap();
        (chunk.bytes, chunk.next)
    }

    fn stop(&mut self, run: RunId) {
        self.wait(self.target.stop(&self.handle(run), Stop::Gently)).unwrap();
    }

    fn remove(&mut self, run: RunId) {
        self.wait(self.target.remove(&self.handle(run))).unwrap();
    }

    fn holds(&mut self, run: RunId) -> bool {
        self.wait(self.target.find(&Token::new(run, 1))).unwrap().is_some()
    }

    fn be_away(&mut self, _away: bool) -> bool {
        false
    }
}

#[test]
fn the_local_target_conforms() {
    let root = tempfile::tempdir().unwrap();
    let project = root.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("code.py"), "pass").unwrap();
    let depot = Depot::new(root.path().join("depot"));
    let source =
        Source::Snapshot(take(&project, &Rules::default(), &root.path().join("cache"), &depot).unwrap().digest);
    let text = "[jobs.any]\ncommand = [\"true\"]\ngrace = \"1s\"".to_owned();
    let config = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "any").unwrap().config;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    let (news, _keep) = tokio::sync::mpsc::unbounded_channel();
    let guard = runtime.enter();
    let target = Local::new(depot.clone(), Declared::default(), env!("CARGO_BIN_EXE_yard").into(), news);
    drop(guard);
    let job = config.jobs["any"].clone();
    all(&mut Here { target, depot, source, job, sent: HashMap::new(), runtime, tasks });
}
