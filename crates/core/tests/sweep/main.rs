//! A sweep in a world of numbers: runs that report, end, fail and are lost in any order, and a controller that is
//! thrown away and made again from its records at any moment.
#![expect(clippy::unwrap_used, reason = "tests")]

mod told;
mod whole;
mod world;
