//! What `squeue` says, as rows.

pub(super) const FORMAT: &str = "%A|%F|%K|%T|%r|%u|%N|%P|%l|%j|%k";

/// A job, or a task of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Of this very job or task.
    pub id: String,
    /// Of the array; of a job that is none, its own.
    pub array: String,
    pub task: Option<u32>,
    /// The long word, such as `RUNNING`.
    pub state: String,
    pub reason: String,
    pub user: String,
    pub nodes: String,
    pub partition: String,
    pub time_limit: String,
    pub name: String,
    pub comment: String,
}

pub(super) fn parse(text: &str) -> Vec<Row> {
    text.lines().map(|line| row(line).unwrap_or_else(|| panic!("squeue printed {line:?}"))).collect()
}

fn row(line: &str) -> Option<Row> {
    let mut parts = line.splitn(11, '|').map(str::to_owned);
    let mut next = || parts.next();
    Some(Row {
        id: next()?,
        array: next()?,
        task: next()?.parse().ok(),
        state: next()?,
        reason: next()?,
        user: next()?,
        nodes: next()?,
        partition: next()?,
        time_limit: next()?,
        name: next()?,
        comment: next()?,
    })
}
