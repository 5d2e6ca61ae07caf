//! By Docker or Podman: the image is loaded from its file once, and the container ends with us.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use trainyard_core::plan::arguments::Invocation;
use trainyard_core::plan::container::{Engine, Inside};

use super::{Wrapped, own_program, text};
use crate::engine::Client;
use crate::inside;
use crate::order::Order;
use crate::step::Step;

const PATIENCE: Duration = Duration::from_secs(60);
/// Twenty gigabytes from a slow disk to a slow disk.
const LOADING: Duration = Duration::from_secs(3600);
/// Of SHA-256, in hexadecimal digits.
const ID: usize = 64;

/// `own` are variables that only the inside is to see; of `env` it sees what the job sets and what we add, but not what is this
/// machine's.
pub(super) fn wrap(
    order: &Order,
    within: &Inside<'_>,
    program: &str,
    call: &Invocation,
    env: &BTreeMap<String, String>,
    own: &[(&'static str, String)],
) -> io::Result<Wrapped> {
    let client = Client::new(program, order, env);
    let image = loaded(&client, &within.container.image)?;
    let attempt = order.depot.run(order.run).attempt(order.attempt);
    let name = format!("yard-{}-{}", order.run, order.attempt);
    let is_for_inside = |name: &String| call.env.contains_key(name) || !order.env.contains_key(name);
    let mut variables: BTreeMap<String, String> = env.clone();
    variables.retain(|name, _| is_for_inside(name));
    variables.extend(own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let step = attempt.step();
    let words = [text(&own_program()?)?, "agent", "inside", "--step", text(&step)?, "--"].map(str::to_owned);
    let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let engine = Engine { program, name: &name, image: &image, user, first: &words };
    let argv = within.run(&engine, &call.argv).map_err(io::Error::other)?;
    let told = inside::told(&variables)?;
    let step = Step::in_container(step, client, name, &told)?;
    Ok(Wrapped { argv, options: Vec::new(), step: Some(step) })
}

/// What the engine calls the image of this file, which it has after this. Only one of several who want it loads it.
fn loaded(client: &Client, path: &str) -> io::Result<String> {
    let program = client.program();
    let mut file = fs_err::File::open(path)?;
    let image = name(&mut file).ok_or_else(|| io::Error::other(format!("{path} is no image for `{program}`")))?;
    let has = || client.call(&["image", "inspect", &image], PATIENCE).map(|ran| ran.status.success());
    if has()? {
        return Ok(image);
    }
    let file: File = file.into();
    flock(&file, FlockOperation::LockExclusive)?;
    if !has()? {
        let ran = client.call(&["load", "--input", path], LOADING)?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing").trim().to_owned();
            return Err(io::Error::other(format!("`{program} load` ended with {} and said: {last}", ran.status)));
        }
    }
    Ok(image)
}

/// The first name in the tar is that of the configuration, which is the image's.
fn name(file: &mut impl Read) -> Option<String> {
    let mut id = [0; ID];
    file.read_exact(&mut id).ok()?;
    let id = std::str::from_utf8(&id).ok()?;
    id.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| format!("localhost/yard:{id}"))
}
