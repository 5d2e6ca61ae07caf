//! `[groups.NAME]`.

use crate::spec::group::GroupSpec;
use crate::spec::problem::Problem;
use crate::spec::read::{Choice, Reader};

pub(super) fn group(name: &str, group: &Reader<'_>) -> Result<GroupSpec, Problem> {
    Ok(GroupSpec {
        name: name.to_owned(),
        jobs: group.need("jobs")?,
        start: group.need::<Choice<_>>("start")?.0,
        target: group.get("target")?,
    })
}
