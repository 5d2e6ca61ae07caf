//! Docker or Podman, called in the way in which the program in its container is started: by the same settings, so that image,
//! container and signals meet in the same engine.

use std::collections::BTreeMap;
use std::io;
use std::process::Output;
use std::time::Duration;

use trainyard_core::plan::container::ENGINE_SETTINGS;

use crate::order::Order;
use crate::program::run_limited_without;

#[derive(Debug, Clone)]
pub(crate) struct Client {
    program: String,
    /// More than we have ourselves.
    env: BTreeMap<String, String>,
}

impl Client {
    /// As a program is that gets `env`. What we have ourselves of the settings is from whoever came first.
    pub(crate) fn new(program: &str, order: &Order, env: &BTreeMap<String, String>) -> Self {
        let set = ENGINE_SETTINGS.iter().filter_map(|name| Some(((*name).to_owned(), env.get(*name)?.clone())));
        Self { program: program.to_owned(), env: order.env.clone().into_iter().chain(set).collect() }
    }

    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    pub(crate) fn call(&self, words: &[&str], limit: Duration) -> io::Result<Output> {
        let argv: Vec<String> = [&[self.program.as_str()], words].concat().into_iter().map(str::to_owned).collect();
        run_limited_without(&argv, &ENGINE_SETTINGS, &self.env, limit)
    }
}
