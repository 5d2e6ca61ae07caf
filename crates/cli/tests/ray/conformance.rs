//! Ray clusters pass what everything that runs things must pass, old and new.

use std::collections::HashMap;

use trainyard_agent::depot::Depot;
use trainyard_agent::disk::now;
use trainyard_agent::order::{Secrets, Source};
use trainyard_agent::parcel::{Member, Parcel};
use trainyard_agent::tail::{From, Position, Wanted};
use trainyard_core::id::{Digest, RunId};
use trainyard_core::run::{Policy, Run};
use trainyard_core::spec::{Command, JobSpec, Layer, ResumeBy, TargetSpec, load};
use trainyard_core::time::Span;
use trainyard_engine::pipe::Pipe;
use trainyard_engine::site::{Asked, Place, Reach, Shipment, Site, SitePlan, open};
use trainyard_engine::snapshot::{Rules, take};
use trainyard_testkit::conformance::{Seen, Subject, all, new_run};
use trainyard_testkit::ray::Ray;

use crate::clusters;

struct Remote<'a> {
    ray: &'a Ray,
    plan: SitePlan,
    site: Box<dyn Site>,
    pipe: Pipe,
    source: Digest,
    job: JobSpec,
    sent: HashMap<RunId, Shipment>,
    /// Goes with it.
    _folder: tempfile::TempDir,
}

impl<'a> Remote<'a> {
    fn new(ray: &'a Ray) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (job, target) = specs(ray);
        let home = Depot::new(folder.path().join("home"));
        let reach = Reach {
            ssh: Vec::new(),
            sockets: folder.path().to_owned(),
            program: env!("CARGO_BIN_EXE_yard").into(),
            home: home.clone(),
            choices: folder.path().join("choices"),
        };
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join("code.py"), "pass").unwrap();
        let snapshot = take(&project, &Rules::default(), &folder.path().join("cache"), &home).unwrap();
        let (by, notice) = (ResumeBy::Requeue, Span::seconds(12));
        let plan = SitePlan {
            target: target.clone(),
            pack: 1,
            lanes: 1,
            most_groups: 1,
            by,
            limit: None,
            notice,
            facts: None,
        };
        let site = open(&reach, &target).unwrap();
        let pipe = reach.pipe(&target).unwrap();
        Self { ray, plan, site, pipe, source: snapshot.digest, job, sent: HashMap::new(), _folder: folder }
    }

    fn asked(&self, run: RunId) -> Asked {
        // Of a run that was never sent, whatever could be asked.
        let parcel = self.sent.get(&run).map_or("y0123456789abcdef", |shipment| &shipment.parcel.id).to_owned();
        Asked {
            run,
            place: Place { parcel, group: 0 },
            job: self.job.name.clone(),
            known: 0,
            begun: true,
            sent: now(),
            sequential: false,
            pack: 1,
        }
    }

    fn run_folder(&self, run: RunId) -> String {
        format!("{}/runs/{run}", self.pipe.depot())
    }
}

fn specs(ray: &Ray) -> (JobSpec, TargetSpec) {
    let text = format!("[jobs.any]\ncommand = ['true']\ngrace = '1s'\n{}", ray.target("there"));
    let config = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "any").unwrap().config;
    (config.jobs["any"].clone(), config.targets["there"].clone())
}

impl Subject for Remote<'_> {
    fn start(&mut self, command: &[&str]) -> RunId {
        let id = new_run();
        let mut job = self.job.clone();
        job.command = Command::Argv(command.iter().map(|part| (*part).to_owned()).collect());
        let parcel = format!("y{}", &id.0.simple().to_string()[16..]);
        let run = Run::new(Policy { attempts: 1, on: Vec::new() }, now());
        let member = Member {
            id,
            name: "conformance".to_owned(),
            seed: None,
            from: None,
            tied: None,
            params: Default::default(),
            run,
        };
        let parcel = Parcel {
            scheduler: self.plan.scheduler(&job.name, &parcel),
            id: parcel,
            job,
            source: Source::Snapshot(self.source.clone()),
            extra: Vec::new(),
            env: Default::default(),
            groups: vec![vec![member]],
            lanes: 1,
        };
        let shipment = Shipment { parcel, plan: self.plan.clone(), secrets: Secrets::default() };
        self.sent.insert(id, shipment.clone());
        self.site.submit(&shipment).unwrap();
        id
    }

    fn send_again(&mut self, run: RunId) {
        let shipment = self.sent[&run].clone();
        self.site.submit(&shipment).unwrap();
    }

    fn look(&mut self, runs: &[RunId]) -> Vec<Seen> {
        let asked: Vec<Asked> = runs.iter().map(|run| self.asked(*run)).collect();
        let Ok(seen) = self.site.observe(&asked) else {
            return runs.iter().map(|_| Seen::Doubt).collect();
        };
        assert_eq!(seen.iter().map(|it| it.run).collect::<Vec<_>>(), runs, "one answer each, in order");
        seen.into_iter().map(Seen::at_site).collect()
    }

    fn log(&mut self, run: RunId, from: u64) -> (Vec<u8>, u64) {
        let at = From::At(Position { attempt: 1, offset: from });
        let wanted = Wanted { run, only: Some(1), newest: 1, from: at };
        let reading = self.pipe.logs(&[wanted], 1 << 20).unwrap().pop().unwrap();
        (reading.portions.into_iter().flat_map(|portion| portion.bytes).collect(), reading.next.offset)
    }

    fn stop(&mut self, run: RunId) {
        let asked = self.asked(run);
        self.site.cancel(&[asked], false).unwrap();
    }

    fn remove(&mut self, run: RunId) {
        let folder = self.run_folder(run);
        self.pipe.remove(&[folder]).unwrap();
    }

    fn holds(&mut self, run: RunId) -> bool {
        let folder = self.run_folder(run);
        !self.pipe.list(&folder).unwrap().is_empty()
    }

    fn be_away(&mut self, away: bool) -> bool {
        self.ray.be_away(away);
        true
    }
}

#[test]
fn the_ray_of_isaac_lab_conforms() {
    all(&mut Remote::new(&clusters::of_isaac_lab()));
}

#[test]
fn the_newest_ray_conforms() {
    all(&mut Remote::new(&clusters::newest()));
}
