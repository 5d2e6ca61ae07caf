//! Where the usual libraries leave their numbers: the folders they write to by themselves and under Isaac Lab.

use super::job::MetricSource;

/// One library's habits.
#[derive(Debug)]
pub(super) struct Preset {
    name: &'static str,
    /// Folders with event files.
    folders: &'static [&'static str],
    tables: &'static [&'static str],
    /// What a training is judged by unless the file says otherwise.
    pub(super) headline: Option<&'static str>,
}

pub(super) const PRESETS: &[&str] = &["rl_games", "rsl_rl", "skrl", "sb3", "lightning", "report"];

static ALL: [Preset; 6] = [
    Preset { name: "rl_games", folders: &["runs/", "logs/"], tables: &[], headline: Some("rewards/step") },
    Preset { name: "rsl_rl", folders: &["logs/"], tables: &[], headline: Some("Train/mean_reward") },
    Preset { name: "skrl", folders: &["runs/", "logs/"], tables: &[], headline: Some("Reward / Total reward (mean)") },
    Preset {
        name: "sb3",
        folders: &["logs/", "runs/", "tensorboard/", "tb_logs/"],
        tables: &["{logs/**/,}{progress,monitor,*.monitor}.csv"],
        headline: Some("rollout/ep_rew_mean"),
    },
    Preset {
        name: "lightning",
        folders: &["lightning_logs/", "logs/", "tb_logs/"],
        tables: &["{lightning_logs,logs}/**/metrics.csv"],
        headline: Some("val_loss"),
    },
    Preset { name: "report", folders: &[], tables: &[], headline: None },
];

impl Preset {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|preset| preset.name == name)
    }

    pub(super) fn sources(&self) -> Vec<MetricSource> {
        let folders = self.folders.iter().map(|folder| MetricSource::Tensorboard((*folder).to_owned()));
        let tables = self.tables.iter().map(|table| MetricSource::Csv((*table).to_owned()));
        let own = (self.folders.is_empty() && self.tables.is_empty()).then_some(MetricSource::Report);
        folders.chain(tables).chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_offered_and_found() {
        assert_eq!(ALL.iter().map(|preset| preset.name).collect::<Vec<_>>(), PRESETS);
        assert!(ALL.iter().all(|preset| !preset.sources().is_empty()));
    }
}
