//! Several brackets of successive halving side by side, from one that judges early to one that never judges, since
//! nobody knows how early a curve tells something (Li et al., "Hyperband", 2018). Each bracket gets about the same
//! number of training steps, so the early ones get most of the trials.

use std::collections::BTreeMap;

use crate::spec::StopSpec;
use crate::value::Params;

use super::asha::{Asha, steps};
use super::{Outlook, Scheduler, Verdict};

#[derive(Debug)]
pub struct Hyperband {
    /// Never empty.
    brackets: Vec<Bracket>,
    trials: BTreeMap<u32, usize>,
}

#[derive(Debug)]
struct Bracket {
    asha: Asha,
    weight: f64,
    begun: u32,
}

impl Hyperband {
    pub fn new(spec: &StopSpec) -> Self {
        let levels = steps(spec).count();
        let bracket = |skipped: usize| {
            let halvings = (levels - skipped) as i32;
            // n = (s_max + 1) / (s + 1) · η^s, without the factor they share.
            let weight = f64::from(spec.factor).powi(halvings) / f64::from(halvings + 1);
            Bracket { asha: Asha::from_level(spec, skipped), weight, begun: 0 }
        };
        Self { brackets: (0..=levels).map(bracket).collect(), trials: BTreeMap::new() }
    }

    fn of(&mut self, trial: u32) -> Option<&mut Asha> {
        self.brackets.get_mut(*self.trials.get(&trial)?).map(|bracket| &mut bracket.asha)
    }
}

impl Scheduler for Hyperband {
    fn begin(&mut self, trial: u32, params: &Params) {
        // Divided up like seats in a parliament, so that every prefix of the trials has its share.
        let claim = |bracket: &Bracket| bracket.weight / f64::from(bracket.begun + 1);
        let mut most = 0;
        for (index, bracket) in self.brackets.iter().enumerate() {
            if self.brackets.get(most).is_some_and(|best| claim(bracket) > claim(best)) {
                most = index;
            }
        }
        if let Some(bracket) = self.brackets.get_mut(most) {
            bracket.begun += 1;
            bracket.asha.begin(trial, params);
            self.trials.insert(trial, most);
        }
    }

    fn next_step(&self, trial: u32) -> Option<i64> {
        self.brackets.get(*self.trials.get(&trial)?)?.asha.next_step(trial)
    }

    fn judge(&mut self, trial: u32, step: i64, loss: f64) -> Verdict {
        self.of(trial).map_or(Verdict::Continue, |asha| asha.judge(trial, step, loss))
    }

    fn end(&mut self, trial: u32) {
        if let Some(asha) = self.of(trial) {
            asha.end(trial);
        }
    }

    fn promote(&mut self, outlook: Outlook) -> Option<u32> {
        self.brackets.iter_mut().find_map(|bracket| bracket.asha.promote(outlook))
    }
}
