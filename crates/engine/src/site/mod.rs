//! Remote targets: systems that take whole runs and take them through their attempts without us.

use serde::{Deserialize, Serialize};
use trainyard_core::spec::{ResumeBy, TargetSpec};
use trainyard_core::time::Span;

/// How a site is told about the runs of a submission: what was decided when it was planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SitePlan {
    pub target: TargetSpec,
    /// Runs to an allocation.
    pub pack: u32,
    /// Programs that share an allocation at any one time.
    pub lanes: u32,
    pub by: ResumeBy,
    pub limit: Option<Span>,
    pub notice: Span,
}
