//! The local target passes what every target must pass.
#![expect(clippy::unwrap_used, reason = "tests")]

use trainyard_agent::depot::Depot;
use trainyard_agent::order::Source;
use trainyard_core::spec::{Layer, load};
use trainyard_engine::snapshot::{Rules, take};
use trainyard_engine::target::{Declared, Local};
use trainyard_testkit::conformance::{Subject, all};

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
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (news, _keep) = tokio::sync::mpsc::unbounded_channel();
        let local = Local::new(depot.clone(), Declared::default(), env!("CARGO_BIN_EXE_yard").into(), news);
        all(&Subject { target: &local, depot, source, job: config.jobs["any"].clone() }).await;
    });
}
