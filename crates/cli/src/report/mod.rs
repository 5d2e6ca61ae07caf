//! The only place that writes to a terminal: data to stdout, talk to stderr.

mod live;
mod plot;
mod printer;
mod progress;
mod run;
mod site;
mod style;
mod table;

pub(crate) use live::Live;
pub(crate) use plot::{Along, Line, Plot, parallel_svg, svg, terminal};
pub(crate) use printer::{Output, Printer, Report, die_quietly_on_closed_pipe, usage};
pub(crate) use progress::Bar;
pub(crate) use run::{RunJson, RunTable, drop_empty_columns, headline, metric_text, note, state_text, why};
pub(crate) use site::{Silences, silence, silent, site_json};
pub(crate) use style::{Style, ago, clock, plural, rfc3339, span, time_of_day};
pub(crate) use table::{abridged, table};
