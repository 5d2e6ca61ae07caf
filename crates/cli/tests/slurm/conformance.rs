//! SLURM clusters and plain machines pass what everything that runs things must pass.

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
use trainyard_engine::site::{Asked, Known, Place, Reach, Shipment, Site, SitePlan, open};
use trainyard_engine::snapshot::{Rules, scan};
use trainyard_engine::transfer::upload;
use trainyard_testkit::conformance::{Seen, Subject, all, new_run};
use trainyard_testkit::{Login, Slurm};

struct Remote<'a> {
    login: Login<'a>,
    reach: Reach,
    plan: SitePlan,
    /// Made anew after the site was away.
    site: Option<Box<dyn Site>>,
    pipe: Pipe,
    source: Digest,
    job: JobSpec,
    sent: HashMap<RunId, Shipment>,
    /// Goes with it.
    _folder: tempfile::TempDir,
}

impl<'a> Remote<'a> {
    fn new(login: Login<'a>, kind: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (job, target) = specs(&login, kind);
        let ssh = login.ssh_command().split(' ').map(str::to_owned).collect();
        let sockets = folder.path().join("sockets");
        std::fs::create_dir(&sockets).unwrap();
        let (home, choices) = (Depot::new(folder.path().join("home")), folder.path().join("choices"));
        let reach = Reach { ssh, sockets, program: env!("CARGO_BIN_EXE_yard").into(), home, choices };
        let mut pipe = reach.pipe(&target).unwrap();
        let facts = Known::ask(&mut pipe, &target).unwrap().facts;
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join("code.py"), "pass").unwrap();
        let snapshot = scan(&project, &Rules::default(), &folder.path().join("cache")).unwrap();
        upload(&mut pipe, &snapshot, None, &mut |_| {}).unwrap();
        let (by, notice) = (ResumeBy::Requeue, Span::seconds(3));
        let plan = SitePlan { target, pack: 1, lanes: 1, most_groups: 1, by, limit: None, notice, facts };
        let (source, sent) = (snapshot.digest, HashMap::new());
        Self { login, reach, plan, site: None, pipe, source, job, sent, _folder: folder }
    }

    fn site(&mut self) -> Option<&mut dyn Site> {
        if self.site.is_none() {
            self.site = open(&self.reach, &self.plan.target).ok();
        }
        Some(self.site.as_mut()?.as_mut())
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

fn specs(login: &Login<'_>, kind: &str) -> (JobSpec, TargetSpec) {
    let text = format!(
        "[jobs.any]\ncommand = ['true']\ngrace = '1s'\n[targets.there]\nkind = '{kind}'\nhost = '{}'\ndepot = '{}'\n",
        login.host(),
        login.home().join("depot").display()
    );
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
        self.site().unwrap().submit(&shipment).unwrap();
        id
    }

    fn send_again(&mut self, run: RunId) {
        let shipment = self.sent[&run].clone();
        self.site().unwrap().submit(&shipment).unwrap();
    }

    fn look(&mut self, runs: &[RunId]) -> Vec<Seen> {
        let asked: Vec<Asked> = runs.iter().map(|run| self.asked(*run)).collect();
        let Some(Ok(seen)) = self.site().map(|site| site.observe(&asked)) else {
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
        self.site().unwrap().cancel(&[asked], false).unwrap();
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
        if away {
            self.login.stop();
        } else {
            self.login.resume();
            self.site = None;
            self.pipe = self.reach.pipe(&self.plan.target).unwrap();
        }
        true
    }
}

#[test]
fn a_slurm_cluster_conforms() {
    all(&mut Remote::new(Login::start(Some(Slurm::shared())), "slurm"));
}

#[test]
fn a_plain_machine_conforms() {
    all(&mut Remote::new(Login::start(None), "ssh"));
}
