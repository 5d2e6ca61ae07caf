//! Docker and Podman.

use super::{ContainerError, Inside};
use crate::spec::{Container, Writable};

/// What an engine is told besides.
#[derive(Debug, Clone)]
pub struct Engine<'a> {
    /// Its program.
    pub program: &'a str,
    /// The container's own name, by which it is told things and ended.
    pub name: &'a str,
    /// The image, as the engine calls it.
    pub image: &'a str,
    /// Whose files the program makes: user and group.
    pub user: (u32, u32),
    /// What runs the program inside. It hears from us what its variables are: an engine would write them down.
    pub first: &'a [String],
}

impl Inside<'_> {
    /// `argv` in a container of its own that sees the machine's network and memory, as Apptainer's do. It goes when it ends, and it
    /// hears us on its standard input, so that it can end when we do.
    pub fn run(&self, engine: &Engine<'_>, argv: &[String]) -> Result<Vec<String>, ContainerError> {
        let (user, group) = engine.user;
        let is_podman = self.container.by == Container::Podman;
        let mut words: Vec<String> = vec![engine.program.to_owned(), "run".to_owned()];
        let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
        add(&["--rm", "--interactive", "--pull", "never", "--name", engine.name]);
        add(&["--network", "host", "--ipc", "host", "--security-opt", "label=disable"]);
        add(&["--user", &format!("{user}:{group}")]);
        if is_podman && user != 0 {
            add(&["--userns", "keep-id"]);
        }
        match (self.with_gpus, is_podman) {
            (true, true) => add(&["--device", "nvidia.com/gpu=all"]),
            (true, false) => add(&["--gpus", "all"]),
            (false, _) => {}
        }
        if self.container.writable == Writable::None {
            add(&["--read-only"]);
        }
        for mount in self.mounts()? {
            add(&["--volume", &mount]);
        }
        add(&["--workdir", self.work]);
        let (first, rest) = engine.first.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        add(&["--entrypoint", first, engine.image]);
        words.extend(rest.iter().chain(argv).cloned());
        Ok(words)
    }
}
