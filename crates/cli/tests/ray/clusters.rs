//! The two clusters that all tests share, each for one test at a time: starting one costs more than most tests do.

use std::sync::{Mutex, MutexGuard, OnceLock};

use trainyard_testkit::ray::{Ray, Size, versions};

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Two nodes of one GPU each; whoever asks has to know a token.
pub(crate) const EQUAL: [Size; 2] = [Size { cpus: 4, gpus: 1 }; 2];
/// A node of two GPUs and one without any.
pub(crate) const UNEQUAL: [Size; 2] = [Size { cpus: 8, gpus: 2 }, Size { cpus: 2, gpus: 0 }];

type Cluster = OnceLock<Mutex<Ray>>;

/// The newest Ray: [`EQUAL`] nodes, with a [`TOKEN`].
pub(crate) fn newest() -> MutexGuard<'static, Ray> {
    static CLUSTER: Cluster = OnceLock::new();
    alone(CLUSTER.get_or_init(|| Mutex::new(Ray::start(&versions()[1], &EQUAL, Some(TOKEN)))))
}

/// The Ray of Isaac Lab: [`UNEQUAL`] nodes, for anybody.
pub(crate) fn of_isaac_lab() -> MutexGuard<'static, Ray> {
    static CLUSTER: Cluster = OnceLock::new();
    alone(CLUSTER.get_or_init(|| Mutex::new(Ray::start(&versions()[0], &UNEQUAL, None))))
}

/// After a test that failed it begins anew, so that one failure does not become many.
fn alone(cluster: &'static Mutex<Ray>) -> MutexGuard<'static, Ray> {
    cluster.lock().unwrap_or_else(|failed| {
        cluster.clear_poison();
        let mut ray = failed.into_inner();
        ray.be_away(false);
        ray.kill_head();
        ray.resume();
        ray
    })
}
